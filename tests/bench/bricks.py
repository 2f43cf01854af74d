"""Times composed from bricks held to the models' own, measured in turn, and what each costs.

    python -m tests.bench.bricks [MODEL ...] [--models 50] [--mode infer] [--granularity 1] [--rounds 5] [--sweeps 1]

A row for each model of torchvision (the smaller ones first, as many as asked for), or of keras.applications with
--framework tensorflow: its true time at batch 1, the time composed from its bricks, and their ratio, also
with hot and with cold weights. Bricks that models share are measured once, beside the first model that
has them; with --own beside each model, which tells what sharing adds to the error. Every round runs the model and then
the bricks. Wanted: the geometric mean of the ratios within 5 %, each within 15 % (training: within 10 %), and bricks at
least 4.4 times cheaper than the models. On a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, log
from typing import Any

import numpy as np

from suite import config
from suite.bricks import frameworks
from suite.bricks.chaining import Bricks
from suite.bricks.composing import compose, quickest
from suite.bricks.measuring import Group, Timed, largest_cache, quickest_counts
from suite.bricks.pace import microseconds
from suite.bricks.record import COLD, Model
from suite.errors import UserError
from suite.harness import by_framework
from suite.harness.implementation import Device
from suite.harness.memory import keep_freed_memory
from suite.measure import machine, noise, systems
from suite.probe.measuring import timed
from suite.probe.record import Conditions
from suite.probe.subject import Subject

BURST = 4  # runs of a model a round, after one that is not timed
ROOM = 8 << 30  # bytes of a brick
LARGE = (
    "vgg", "_l", "_large", "_h_14", "_128gf", "_32gf", "_16gf", "wide_", "101_64", "152", "efficientnet_b7", "_b6",
    "EfficientNetB7", "EfficientNetB6", "EfficientNetV2L", "Large", "XLarge", "VGG", "NASNetLarge",
)  # fmt: skip


@dataclass
class Held:
    """A model: its steps, and milliseconds of its own runs."""

    subject: Subject
    model: Model
    fresh: list[int]
    """The bricks that no model before has."""
    true: list[float] = field(default_factory=list)
    seconds: float = 0.0


def names(given: argparse.Namespace) -> list[str]:
    """The models to take."""
    if given.names:
        return list(given.names)
    listed = sorted(frameworks.load(given.framework).listed(), key=lambda name: any(each in name for each in LARGE))
    return listed[: given.models]


def main(argv: Sequence[str]) -> int:
    """Print a row for each model, then what they come to."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bricks", description=str(__doc__).splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="MODEL", help="default: as many as --models says")
    parser.add_argument("--models", type=int, default=50)
    parser.add_argument("--framework", default="torch", choices=by_framework.having(frameworks.__name__))
    parser.add_argument("--mode", default="infer", choices=["infer", "train"])
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--granularity", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5, help="of a sweep (default 5)")
    parser.add_argument("--sweeps", type=int, default=1, help="over all models (default 1)")
    parser.add_argument("--own", action="store_true", help="measure all bricks of a model beside it")
    parser.add_argument("--cpu", action="store_true", help="by the process's own CPU time, without what others took")
    parser.add_argument("--json", action="store_true", help="print a JSON object a line")
    given = parser.parse_args(argv)
    if given.cpu:
        time.perf_counter = time.process_time
    keep_freed_memory()
    disturbed = noise.watched(machine.detect())
    held, bricks = recorded(given)
    print(
        f"{len(held)} models: {sum(each.model.calls for each in held):,} calls, "
        f"{len(bricks.made):,} unique bricks of {sum(len(each.model.bricks) for each in held):,}",
        flush=True,
    )
    found, spent = [Timed(each.held, each.given) for each in bricks.made], 0.0
    alone = quickest_counts(frameworks.load(given.framework), Device("cpu", given.precision))
    rows = []
    for sweep in range(given.sweeps):
        for each in held:
            if given.own:
                found = [Timed(each.held, each.given) for each in bricks.made]
            spent += measured(each, bricks, found, given)
            if given.own or sweep == given.sweeps - 1:
                rows.append(row(each, found, alone))
                show(rows[-1], given.json, len(rows) == 1)
    whole = sum(each.seconds for each in held)
    ratios = [each["ratio"] for each in rows]
    mean = exp(sum(map(log, ratios)) / len(ratios))
    print(
        f"composed / true: geometric mean {mean:.3f}, {min(ratios):.3f} to {max(ratios):.3f}; "
        f"within 15 %: {sum(abs(each - 1) <= 0.15 for each in ratios)} of {len(ratios)}, "
        f"within 10 %: {sum(abs(each - 1) <= 0.1 for each in ratios)}, "
        f"within 5 %: {sum(abs(each - 1) <= 0.05 for each in ratios)}"
    )
    for name in ("hot", "cold"):
        print(f"{name} / true: geometric mean {exp(float(np.mean(np.log([each[name] for each in rows])))):.3f}")
    print(f"hot <= true <= cold: {sum(each['hot'] <= 1 <= each['cold'] for each in rows)} of {len(rows)}")
    print(f"the models took {whole:.1f} s, their bricks {spent:.1f} s: {whole / spent:.2f} times as much")
    for why in disturbed():
        print(f"NOISY  {why}")
    return 0


def recorded(given: argparse.Namespace) -> tuple[list[Held], Bricks]:
    """The models and their bricks."""
    framework, bricks, held = frameworks.load(given.framework), Bricks(given.granularity), list[Held]()
    system = systems.resolve(config.system("cpu"), machine.detect())
    for name in names(given):
        conditions = Conditions(
            model=name, framework=given.framework, mode=given.mode, batch=1, precision=given.precision
        )
        subject, before = Subject(conditions, system, 1.0), len(bricks.made)
        try:
            model = bricks.add(conditions, framework.record(subject))
        except UserError as error:
            print(f"{name}: {error}", flush=True)
            continue
        held.append(Held(subject, model, list(range(before, len(bricks.made)))))
    return held, bricks


def measured(held: Held, bricks: Bricks, found: list[Timed], given: argparse.Namespace) -> float:
    """Run a model and bricks in turn; the seconds that the bricks took."""
    framework = frameworks.load(given.framework)
    device = Device("cpu", given.precision)
    workload = held.subject.build()
    workload.ready(10**6)
    running, spent = {}, 0.0
    for place in sorted(set(held.model.bricks)) if given.own else held.fresh:
        try:
            running[place] = framework.runner(bricks.made[place], device, given.mode, ROOM)
        except UserError as error:
            found[place].why = str(error)
    group = Group(running, found)
    for at in range(given.rounds):
        began = time.perf_counter()
        workload.run(1)
        held.true += [1e3 * timed(lambda: workload.run(1)) for _ in range(BURST)]
        held.seconds += time.perf_counter() - began
        began = time.perf_counter()
        group.round(cold=at % COLD == 0)
        spent += time.perf_counter() - began
    gc.collect()
    return spent


def row(held: Held, found: Sequence[Timed], alone: bool) -> dict[str, Any]:
    """A model's true time and what its bricks come to, the quickest round of each `alone` or all."""
    times = [quickest(each.time()) if alone else each.time() for each in found]
    composed, true = compose(held.model, times, largest_cache(), microseconds()), float(np.median(held.true))
    return {
        "model": held.model.conditions.name,
        "true ms": round(true, 2),
        "composed ms": round(composed.sequential.value or 0, 2),
        "ratio": round((composed.sequential.value or 0) / true, 3),
        "hot": round((composed.hot or 0) / true, 3),
        "cold": round((composed.cold or 0) / true, 3),
        "between": round((composed.between or 0) / true, 3),
        "from memory": round(composed.share or 0, 2),
        "longest path": round((composed.critical or 0) / true, 3),
        "steps": composed.steps,
        "new": len(held.fresh),
        "missing": composed.missing + sum(held.model.left_out.values()),
    }


def show(values: dict[str, Any], as_json: bool, first: bool) -> None:
    """A row."""
    if as_json:
        print(json.dumps(values), flush=True)
        return
    if first:
        print("| " + " | ".join(values) + " |\n" + "|---" * len(values) + "|")
    print("| " + " | ".join(map(str, values.values())) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
