"""Matrix products, convolutions, recurrent, sparse and all-reduce, one by one: time, rates, share of the peak.

They are DeepBench's or, with task= or model=, those that a step was seen to take, with their shapes. Inputs are noise,
made anew for each repeat, so that only one problem at a time is in memory.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from suite.errors import UserError
from suite.harness.implementation import Device
from suite.measure.machine import detect, room_of
from suite.probe import measuring
from suite.probe.kernels import deepbench, tags
from suite.probe.kernels.problems import AllReduce, Listed, MatrixProduct, Problem
from suite.probe.record import Cell, Figure, Row, one_line
from suite.probe.roof import Roof
from suite.probe.subject import COUNTED_STEPS, SEED, Subject
from suite.probe.tracing import uncounted

TAKES = ("kernels",)
DEFAULTS = {"kernels": tags.QUICK}
ALONE = True
WIDTHS = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}  # bytes of a number
ROOM = 2  # a problem may need so many times what it moves, while inputs are made and its library works
SMALL = MatrixProduct(1, 1, 1)
US = "us"
COLUMNS = {
    "calls": "a step",
    "precision": "",
    US: "",
    "from": "",
    "to": "",
    "TFLOP/s": "",
    "GB/s": "",
    "of peak": "%",
    "GFLOP": "",
    "MB": "",
    "share": "%",
    "algorithm": "",
    "why": "",
}


@dataclass
class Look:
    """A look at one problem: `times` has the seconds of each repeat, or `why` says why there are none."""

    listed: Listed
    device: Device
    steps: int = 1
    times: list[float] = field(default_factory=list)
    algorithm: str | None = None
    why: str | None = None

    @property
    def bytes(self) -> int:
        """The least bytes that the problem moves."""
        return self.listed.problem.bytes(WIDTHS[self.device.precision])


class Kernels:
    """See `levels.Measurement`."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.instruments = subject, subject.instruments
        self.roof, self.notes = Roof(subject), list[str]()
        listed = tags.chosen(self._listed(), str(subject.conditions.kernels))
        self.seconds = subject.seconds / len(listed)
        room = room_of(subject.device.kind)
        self.looks = [
            Look(each, replace(subject.device, precision=each.precision or subject.device.precision)) for each in listed
        ]
        self.order = random.Random(SEED)
        for look in self.looks:
            if (need := ROOM * look.bytes) > room:
                look.why = f"out of memory: it may take {need / 1e9:.3g} GB, and there are {room / 1e9:.3g}"
            else:
                self._attempt(look, first=True)

    def repeat(self) -> None:
        """A look at the roof, then each problem once, in a new order."""
        self.instruments.kernel(SMALL, self.subject.device)  # building it resets the roof's arithmetic, tf32 or not
        self.roof.look()
        running = [look for look in self.looks if look.why is None]
        for look in self.order.sample(running, len(running)):
            self._attempt(look)

    def found(self) -> Cell:
        """See `levels.Measurement`."""
        looks = [look for look in self.looks if look.why is None]
        peak, told = self._peak()
        notes = [*self.notes, f"of peak: of {peak / 1e12:.4g} TFLOP/s, {told}"]
        figures = {
            **({"sum": measuring.mean(_sums(looks), "ms")} if looks and looks[0].listed.calls else {}),
            **self.roof.figures(),
            "problems": Figure(value=len(looks), unit=""),
            "not measured": Figure(value=len(self.looks) - len(looks), unit=""),
        }
        whole = sum(np.mean(look.times) * (look.listed.calls or 1) for look in looks)
        rows = [self._row(look, peak, float(whole)) for look in looks]
        rows.sort(key=lambda row: -(row.number("share") or 0))
        if rates := {row.name: 1e3 * rate for row in rows if (rate := row.number("TFLOP/s"))}:
            best = max(rates, key=rates.__getitem__)
            notes.append(f"the most operations a second: {rates[best]:.4g} GFLOP/s in {best}")
        failed = {look.listed.problem.name: look.why for look in self.looks if look.why}
        rows += [Row(name=name, values={"why": why}) for name, why in failed.items()]
        for why in dict.fromkeys(failed.values()):
            first, *others = (name for name, each in failed.items() if each == why)
            notes.append(f"not measured: {first}{f' and {len(others)} more' if others else ''}: {why}")
        filled = {name for row in rows for name, value in row.values.items() if value is not None}
        columns = {name: unit for name, unit in COLUMNS.items() if name in filled}
        return Cell(conditions=self.subject.conditions, figures=figures, columns=columns, rows=rows, notes=notes)

    def _listed(self) -> list[Listed]:
        """DeepBench's problems, or those of the workload."""
        conditions = self.subject.conditions
        if conditions.task or conditions.model:
            return self._called()
        for name in ("scale", "batch", "size", "data"):
            if getattr(conditions, name) is not None:
                raise UserError(f"{name}={getattr(conditions, name)} is for task= or model=; DeepBench has its sizes")
        listed = deepbench.problems(conditions.mode)
        if (gpus := len(detect().accelerators)) and self.subject.device.kind == "gpu":
            return [
                replace(each, problem=replace(each.problem, workers=gpus))
                if isinstance(each.problem, AllReduce)
                else each
                for each in listed
            ]
        return listed

    def _called(self) -> list[Listed]:
        """The problems of a step of the workload, the mean of its first few steps."""
        found: list[Counter[tuple[Problem, str]]] = []
        with self.subject.first_steps() as steps:
            counted = self.instruments.flops(lambda: found.append(self.instruments.called(steps, self.subject.device)))
        (calls,), whole = found, sum(filter(None, counted.values()))
        if not calls:
            called = f"; it calls {', '.join(sorted(counted))}" if counted else ""
            raise UserError(f"a step has no matrix product or convolution in {' or '.join(WIDTHS)} to time{called}")
        covered = sum(times * problem.flops for (problem, _), times in calls.items())
        if why := uncounted(counted):
            self.notes.append(f"what part these are of a step's operations is not known: {why}")
        elif whole:
            self.notes.append(f"these are {100 * covered / whole:.4g} % of a step's operations, if all are looked at")
        return [
            Listed(problem, precision, times / COUNTED_STEPS) for (problem, precision), times in calls.most_common()
        ]

    def _attempt(self, look: Look, first: bool = False) -> None:
        """Time a problem, the `first` time to set how many calls a repeat has; or note why it cannot be timed."""
        try:
            workload = self.instruments.kernel(look.listed.problem, look.device)
            if first:
                look.steps = measuring.steps_after_warm_up(workload, self.seconds, self.seconds)
                look.algorithm = self.instruments.algorithm(workload, look.device)
            else:
                look.times.append(measuring.block(workload, look.steps) / look.steps)
        except Exception as error:  # whatever a framework raises for what it does not have, or for want of memory
            look.why = one_line(error)

    def _peak(self) -> tuple[float, str]:
        """The FLOP/s that shares refer to, and what they are: the system's by its sheet, or the fastest product's."""
        for look in self.looks:
            if isinstance(look.listed.problem, MatrixProduct) and look.device == self.subject.device:
                self.roof.flops = max(self.roof.flops, _rate(look))
        system, precision = self.subject.system, self.subject.conditions.precision
        if sheet := system.peak_flops(precision):
            return sheet, f"the peak of {system.name} in {precision}"
        return self.roof.flops, f"the fastest matrix product in {precision} here"

    def _row(self, look: Look, peak: float, whole: float) -> Row:
        problem, seconds = look.listed.problem, measuring.mean(look.times, "s")
        mean, flops = cast(float, seconds.value), problem.flops or None
        values: dict[str, float | str | None] = {
            "calls": look.listed.calls,
            "precision": look.device.precision,
            US: 1e6 * mean,
            "from": None if seconds.low is None else 1e6 * seconds.low,
            "to": None if seconds.high is None else 1e6 * seconds.high,
            "TFLOP/s": flops and flops / mean / 1e12,
            "GB/s": look.bytes / mean / 1e9,
            "of peak": flops and 100 * flops / mean / peak if look.device == self.subject.device else None,
            "GFLOP": flops and flops / 1e9,
            "MB": look.bytes / 1e6,
            "share": 100 * mean * (look.listed.calls or 1) / whole,
            "algorithm": look.algorithm,
        }
        other = "" if look.device == self.subject.device else f" {look.device.precision}"
        return Row(name=f"{problem.name}{other}", values=values)


def _rate(look: Look) -> float:
    """The highest number of operations per second in any repeat."""
    return look.listed.problem.flops / min(look.times) if look.times else 0.0


def _sums(looks: Sequence[Look]) -> list[float]:
    """Milliseconds of all calls of a step, in each repeat."""
    return [
        sum(1e3 * seconds * (look.listed.calls or 0) for look, seconds in zip(looks, times, strict=True))
        for times in zip(*(look.times for look in looks), strict=True)
    ]


measurement = Kernels
