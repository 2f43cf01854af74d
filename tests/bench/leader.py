"""What it costs that rank 0 leads: the time of a call of all workers that has nothing to do.

    python -m tests.bench.leader [--workers 2,4] [--calls 500]

The leader tells the followers, and waits for their answers, once for each slice of training: a step, or as many steps
as take a second. The workers are processes of this machine; a network adds its own round trip to each call.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from suite.config.plan import Plan
from suite.harness import contract
from suite.harness.contestant import read
from suite.harness.implementation import Device
from suite.harness.workers.leading import followed
from suite.harness.workers.led import Led
from suite.harness.workers.place import Place
from suite.harness.workers.starting import started
from suite.measure.machine import detect
from suite.run.options import parse
from suite.run.planning import from_options
from suite.store.arrays import prepared
from suite.store.task import for_run, load_task

ALIKE = Path(__file__).parents[1] / "implementations/alike"
SLICE_S = 1.0  # see suite/harness/loop.py


def seconds(made: Plan, workers: int, calls: int) -> list[float]:
    """Of each call."""
    own = read(ALIKE, None)
    task = load_task(made.benchmark.task)
    arrays = prepared(made.benchmark, task)
    data = for_run(made.benchmark, task, arrays, None)
    with started(Place(), workers) as (place, processes), followed(place, processes) as followers:
        assert followers
        followers.prepare(made, str(ALIKE), None, arrays)
        device = Device("cpu", "fp32", addresses=followers.addresses)
        given = {"seed": 1, "evaluation_seed": None, "device": "cpu", "precision": "fp32", "memory_gb": None}
        led = Led.build(
            lambda: contract.build(own.load(made.benchmark.task), made.benchmark, data, 1, device), followers, **given
        )
        taken = []
        for _ in range(calls):
            began = time.perf_counter()
            led.train_until(0)
            taken.append(time.perf_counter() - began)
    return taken


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.leader", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--workers", default="2,4")
    parser.add_argument("--calls", type=int, default=500)
    args = parser.parse_args()
    (options,) = parse(["task=image_classification", "scale=mini", "hw=cpu", "seed=1", f"implementation={ALIKE}"])
    made = from_options(options, detect(), read(ALIKE, None))
    table = Table("workers", "a call, median, ms", "95 of 100 below, ms", "of a second")
    for workers in map(int, args.workers.split(",")):
        taken = seconds(made, workers, args.calls)
        median, most = statistics.median(taken), statistics.quantiles(taken, n=20)[-1]
        table.add_row(str(workers), f"{median * 1e3:.2f}", f"{most * 1e3:.2f}", f"{median / SLICE_S:.2%}")
    Console().print(table)


if __name__ == "__main__":
    main()
