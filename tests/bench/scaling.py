"""How the references scale on one machine: two workers of one thread each beside one process of two threads.

    python -m tests.bench.scaling [--framework torch] [--scale mini] [--tasks a,b] [--seconds 4] [--rounds 3] [--json]

In samples a second, one way after the other, the median of the rounds. `strong` shares out the benchmark's batch,
`weak` gives each worker a whole one; both as ratios to one process of two threads. `apart` are two processes of half a
batch each that do not talk: by what share of its time `strong` is slower, that goes into communication and into waiting
for the slower worker.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import time
from concurrent.futures import as_completed
from threading import Barrier
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from suite import config
from suite.harness import contract
from suite.harness.implementation import Device, load_implementation
from suite.harness.workers.channel import free_port
from suite.measure import machine, systems
from suite.store.arrays import prepared
from suite.store.processes import Pool
from suite.store.task import for_run, load_task


class Way(NamedTuple):
    """How many processes of how many threads, whether they share a batch, and of what size, to the benchmark's."""

    processes: int
    threads: int
    shared: bool
    batch: float


WAYS = {
    "threads": Way(1, 2, False, 1.0),
    "strong": Way(2, 1, True, 1.0),
    "weak": Way(2, 1, True, 2.0),
    "apart": Way(2, 1, False, 0.5),
}


def work(
    task: str, framework: str, scale: str, batch: float, device: Device, steps: int, begin: Barrier
) -> float | str:
    """Train for so many steps, once all are ready; samples a second, or why there are none."""
    benchmark, module = config.benchmark(task, scale), load_task(task)
    size = int(benchmark.hyperparameters["global_batch_size"] * batch)
    hyper = {**benchmark.hyperparameters, "global_batch_size": size}
    benchmark = benchmark.model_copy(update={"hyperparameters": hyper})
    data = for_run(benchmark, module, prepared(benchmark, module), 1)
    try:
        made = contract.build(load_implementation(task, config.framework(framework)), benchmark, data, 1, device)
        first = made.train_until(3 * size).samples
        begin.wait()
        began = time.monotonic()
        last = made.train_until(first + steps * size).samples
        return (last - first) / (time.monotonic() - began)
    except Exception as error:  # a batch that a recipe refuses
        begin.abort()
        return f"{type(error).__name__}: {error}"[:80]


def samples_per_second(task: str, framework: str, scale: str, way: Way, steps: int) -> float | str:
    """Of all processes together, or why there is none."""
    os.environ["OMP_NUM_THREADS"] = os.environ["TF_NUM_INTRAOP_THREADS"] = str(way.threads)
    precision = systems.precision_of(config.system("cpu"), machine.detect())
    addresses = tuple(f"127.0.0.1:{free_port()}" for _ in range(way.processes)) if way.shared else ()
    with multiprocessing.get_context("spawn").Manager() as shared, Pool(way.processes) as pool:
        begin, working = shared.Barrier(way.processes), []
        for rank in range(way.processes):
            device = Device("cpu", precision, rank if way.shared else 0, rank, addresses)
            working.append(pool.submit(work, task, framework, scale, way.batch, device, steps, begin))
        found = [each.result() for each in as_completed(working)]
    if failed := [each for each in found if isinstance(each, str)]:
        return failed[0]
    return min(found) if way.shared else sum(found)


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--framework", default="torch")
    parser.add_argument("--scale", default="mini")
    parser.add_argument("--tasks", default=",".join(config.names("task")))
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    for task in args.tasks.split(","):
        size = config.benchmark(task, args.scale).hyperparameters["global_batch_size"]
        rate = samples_per_second(task, args.framework, args.scale, WAYS["threads"], 5)
        assert isinstance(rate, float), rate
        steps = max(5, round(args.seconds * rate / size))
        found: dict[str, list[float | str]] = {name: [] for name in WAYS}
        for _ in range(args.rounds):
            for name, way in WAYS.items():
                found[name].append(samples_per_second(task, args.framework, args.scale, way, steps))
        rows[task] = {name: _median(values) for name, values in found.items()}
    if args.json:
        print(json.dumps(rows))
        return
    table = Table("task", "threads, samples/s", "strong", "weak", "in communication")
    for task, row in rows.items():
        table.add_row(task, *(_shown(row, name) for name in ("threads", "strong", "weak")), _communication(row))
    Console().print(table)


def _median(values: list[float | str]) -> float | str:
    return next((each for each in values if isinstance(each, str)), None) or statistics.median(values)  # type: ignore[type-var]


def _shown(row: dict[str, Any], name: str) -> str:
    if isinstance(row[name], str):
        return str(row[name])
    return f"{row[name]:.0f}" if name == "threads" else f"{row[name] / row['threads']:.2f}"


def _communication(row: dict[str, Any]) -> str:
    if isinstance(row["strong"], str) or isinstance(row["apart"], str):
        return "not measured"
    return f"{1 - row['strong'] / row['apart']:.0%}"


if __name__ == "__main__":
    main()
