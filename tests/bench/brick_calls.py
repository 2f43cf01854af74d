"""Operator by operator: what the calls of a model take in the model, and what their bricks take.

    python -m tests.bench.brick_calls [MODEL ...] [--rounds 5]

For each model of torchvision, at batch size 1, a row for each operator: how many calls, their milliseconds within the
model, and those of their bricks with weights in the caches. Above them the model's own time, that of its calls, and
their difference, which is what the host does between them. On a machine that does nothing else.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import median

from suite import config
from suite.bricks import frameworks
from suite.bricks.chaining import Bricks
from suite.bricks.frameworks.torch_recording import Inside
from suite.bricks.measuring import Group, Timed
from suite.harness.implementation import Device
from suite.harness.memory import keep_freed_memory
from suite.measure import machine, systems
from suite.probe.measuring import timed
from suite.probe.record import Conditions
from suite.probe.subject import Subject

RUNS = 20
ROOM = 8 << 30  # bytes of a brick


def show(name: str, rounds: int) -> None:
    """Print a model's rows, those that take the longest first."""
    conditions = Conditions(model=name, framework="torch", mode="infer", batch=1, precision="fp32")
    subject = Subject(conditions, systems.resolve(config.system("cpu"), machine.detect()), 1.0)
    framework, bricks = frameworks.load("torch"), Bricks(1)
    (recorded,) = framework.record(subject)
    model = bricks.add(conditions, [recorded])
    workload, whole, inside = subject.build(), list[float](), list[list[float]]()
    workload.run(1)
    for _ in range(RUNS):
        whole.append(timed(lambda: workload.run(1)))
        with Inside() as mode:
            workload.run(1)
        inside.append(mode.seconds)
    in_model = [median(each) for each in zip(*inside, strict=True)]
    found = [Timed(each.held, each.given) for each in bricks.made]
    device = Device("cpu", "fp32")
    group = Group({at: framework.runner(each, device, "infer", ROOM) for at, each in enumerate(bricks.made)}, found)
    for _ in range(rounds):
        group.round(cold=False)
    as_bricks = [median(found[at].hot) / 1e6 for at in model.bricks]
    took, calls = median(whole), sum(in_model)
    print(f"{name}: {1e3 * took:.2f} ms, its calls {1e3 * calls:.2f}, between {1e3 * (took - calls):.2f}")
    print(f"    {'':<24} {'calls':>5} {'in the model':>12} {'as bricks':>12}")
    rows: dict[str, list[tuple[float, float]]] = {}
    for called, *seconds in zip(recorded.calls, in_model, as_bricks, strict=True):
        rows.setdefault(called.call.op, []).append((seconds[0], seconds[1]))
    for op, each in sorted(rows.items(), key=lambda row: -sum(first for first, _ in row[1])):
        first, second = (1e3 * sum(column) for column in zip(*each, strict=True))
        print(f"    {op:<24} {len(each):>5} {first:>12.3f} {second:>12.3f}")
    print(f"    {'all':<24} {len(as_bricks):>5} {1e3 * calls:>12.3f} {1e3 * sum(as_bricks):>12.3f}", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Print each model's operators."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.brick_calls", description=str(__doc__).splitlines()[0])
    parser.add_argument("models", nargs="*", default=["mobilenet_v2", "resnet18", "densenet121"])
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args(argv)
    keep_freed_memory()
    for name in given.models:
        show(name, given.rounds)


if __name__ == "__main__":
    main()
