"""Time of a step against the network's bandwidth: two workers in two network namespaces, joined by a link of that rate.

    python -m tests.bench.network [--tasks translation,image_classification] [--scale mini] [--steps 20] [--json]

Needs root, `ip` and `tc` (Debian's iproute2). Beside each measured step stands the alpha-beta model of a ring
(Thakur et al. 2005): the step without a limit of the rate, plus 2 (n - 1) / n times the gradients' bytes over the rate.
It leaves out that sending overlaps with the backward pass.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time

import torch
from rich.console import Console
from rich.table import Table

from suite import config
from suite.harness.contract import training_data
from suite.harness.implementation import Device, load_implementation
from suite.measure import machine, systems
from suite.store.arrays import prepared
from suite.store.task import for_run, load_task
from tests.worlds import ADDRESSES, NAMESPACES, two_hosts, why_no_namespaces

RATES = {"100 Mbit/s": 1e8, "1 Gbit/s": 1e9, "10 Gbit/s": 1e10, "25 Gbit/s": 2.5e10}
UNLIMITED = "no limit"
PORT = 29_501


def work(task: str, scale: str, steps: int, rank: int) -> None:
    """Print the seconds of a step, and the bytes of the gradients."""
    benchmark, module = config.benchmark(task, scale), load_task(task)
    data = for_run(benchmark, module, prepared(benchmark, module), 1)
    precision = systems.precision_of(config.system("cpu"), machine.detect())
    device = Device("cpu", precision, rank, 0, tuple(f"{each}:{PORT}" for each in ADDRESSES))
    implementation = load_implementation(task, config.framework("torch"))
    made = implementation.build(benchmark.hyperparameters, training_data(data), 1, device)
    size = benchmark.hyperparameters["global_batch_size"]
    first = made.train_until(3 * size).samples
    began = time.monotonic()
    last = made.train_until(first + steps * size).samples
    seconds = (time.monotonic() - began) * size / (last - first)
    model: torch.nn.Module = made.model  # type: ignore[attr-defined]
    print(json.dumps([seconds, sum(4 * p.numel() for p in model.parameters())]))


def step(task: str, scale: str, steps: int) -> tuple[float, int]:
    """The seconds of a step of two workers, one in each namespace, and the bytes of the gradients."""
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = []
    for rank, namespace in enumerate(NAMESPACES):
        asked = [sys.executable, "-m", "tests.bench.network", "--rank", str(rank), "--tasks", task, "--scale", scale]
        command = ["ip", "netns", "exec", namespace, *asked, "--steps", str(steps)]
        started.append(subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True))
    said = [each.communicate()[0] for each in started]
    seconds, nbytes = json.loads(said[0])
    return seconds, nbytes


def limit(rate: float | None) -> None:
    """Let both ends of the link send at most so many bits a second; None takes the limit away."""
    for namespace, link in zip(NAMESPACES, ("va", "vb"), strict=True):
        at = ["tc", "-n", namespace, "qdisc"]
        subprocess.run([*at, "del", "dev", link, "root"], check=False, capture_output=True)
        if rate:
            bucket = ["tbf", "rate", f"{rate:.0f}bit", "burst", f"{max(rate / 8 / 250, 1e5):.0f}", "latency", "100ms"]
            subprocess.run([*at, "add", "dev", link, "root", *bucket], check=True)


def measured(task: str, scale: str, steps: int) -> list[dict[str, float | str]]:
    """A row for each rate: seconds of a step, measured and by the model."""
    limit(None)
    bare, nbytes = step(task, scale, steps)
    rows: list[dict[str, float | str]] = [{"rate": UNLIMITED, "step_s": bare, "model_s": bare, "bytes": nbytes}]
    for name, rate in reversed(RATES.items()):
        limit(rate)
        seconds, _ = step(task, scale, steps)
        rows.append({"rate": name, "step_s": seconds, "model_s": bare + nbytes * 8 / rate, "bytes": nbytes})
    return rows


def stop(*_: object) -> None:
    """End at SIGTERM, which by itself would leave the namespaces on the machine; `timeout` sends it twice."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


def main() -> None:
    """The table, or with --rank a worker."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", default="translation,image_classification")
    parser.add_argument("--scale", default="mini")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.rank is not None:
        work(args.tasks, args.scale, args.steps, args.rank)
        return
    if why := why_no_namespaces():
        sys.exit(why)
    signal.signal(signal.SIGTERM, stop)
    with two_hosts():
        found = {task: measured(task, args.scale, args.steps) for task in args.tasks.split(",")}
    if args.json:
        print(json.dumps(found))
        return
    table = Table("task", "rate", "step, ms", "model, ms", "of the measured")
    for task, rows in found.items():
        for row in rows:
            step_s, model_s = float(row["step_s"]), float(row["model_s"])
            figures = (f"{step_s * 1e3:.1f}", f"{model_s * 1e3:.1f}", f"{model_s / step_s:.2f}")
            table.add_row(task, str(row["rate"]), *figures)
    Console().print(table)


if __name__ == "__main__":
    main()
