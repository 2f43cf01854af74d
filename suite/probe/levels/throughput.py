"""Samples a second, and how steady: jitter, percentiles, drift, end of the warm-up; share of the peak rate (MFU).

Blocks of steps, of which only the last is waited for, give the rate. Steps that are each waited for give the
percentiles, which in `mode=infer` are the latencies. MFU refers to the peak that `level=kernels` attained, if `peak=`
names it, else to the system's. If that is unknown, matrix products before and after each block stand in for it, so that
both run under the same load and with as many threads.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np

from suite.errors import UserError, shown
from suite.measure.machine import ALIKE, detect
from suite.probe import measuring, record, roof
from suite.probe.record import Cell, Figure, one_line
from suite.probe.subject import Subject
from suite.probe.workload import Workload
from suite.record.environment import environment

TAKES = ("peak",)
THREADS = "threads"  # of the environment
OF_MODELS = "on a GPU model= runs as it is written in PyTorch, and is compiled by XLA in TensorFlow"
PERCENTILES = (50, 90, 99)
PRODUCTS = 8  # each look takes one part in so many of a repeat's time


class Throughput:
    """See `levels.Measurement`."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.notes = [OF_MODELS] if subject.conditions.model and subject.system.device_kind == "gpu" else []
        self.flops = self._flops()  # before the workload is built: what is watched may be traced anew afterwards
        self.workload: Workload = subject.build()
        first = measuring.first_steps(self.workload, subject.seconds)
        self.warm_up = measuring.end_of_warm_up(first)
        self.steps = measuring.steps_for(subject.seconds / 2, first[self.warm_up :])
        self.rates: list[float] = []
        self.times: list[float] = []
        self.shares: list[float] = []
        self.peak = self._peak() if self.flops else None

    def repeat(self) -> None:
        """Time a block between two looks at the peak, then as many steps, waiting for each."""
        before = self.peak() if self.peak else 0.0
        rate = self.steps * self.workload.samples / measuring.block(self.workload, self.steps)
        self.rates.append(rate)
        if self.flops and self.peak:
            peak = (before + self.peak()) / 2
            self.shares.append(100 * rate / self.workload.samples * self.flops / peak)
        self.times += measuring.step_times(self.workload, self.steps)

    def found(self) -> Cell:
        """See `levels.Measurement`."""
        samples, drift = self.workload.samples, measuring.drift(self.times)
        times = {at: measuring.percentile([1e3 * each for each in self.times], at) for at in PERCENTILES}
        few = [f"p{at} needs {100 // (100 - at)} steps" for at, told in times.items() if told is None]
        if few:
            self.notes.append(f"{' and '.join(few)}, and there were {len(self.times)}: give a longer seconds=")
        rate = float(np.mean(self.rates)) / samples * self.flops if self.flops else None
        if self.flops and (unlike := self.subject.unlike_a_run(self.flops, samples)):
            self.notes.append(f"GFLOP/s and MFU are as far off as this: {unlike}")
        figures = {
            "samples/s": measuring.mean(self.rates, "1/s"),
            "SE": Figure(value=measuring.standard_error(self.rates), unit="1/s"),
            "jitter": Figure(value=measuring.jitter([samples / each for each in self.times]), unit="1/s"),
            **{f"p{at}": Figure(value=told, unit="ms") for at, told in times.items()},
            "drift": Figure(value=None if drift is None else drift * 100, unit="%"),
            "warm-up": Figure(value=self.warm_up, unit="steps"),
            "samples/step": Figure(value=samples, unit=""),
            "GFLOP/s": Figure(value=None if rate is None else rate / 1e9, unit="1e9/s"),
            "MFU": measuring.mean(self.shares, "%"),
        }
        return Cell(conditions=self.subject.conditions, figures=figures, notes=self.notes)

    def _flops(self) -> float | None:
        """Floating-point operations of a step; None, with a note, if they cannot be counted."""
        try:
            return self.subject.flops()
        except Exception as error:
            self.notes.append(f"operations not counted: {one_line(error)}")
        return None

    def _peak(self) -> Callable[[], float] | None:
        """A function for the peak FLOP/s: attained, the system's, or a product's now; None, with a note, if unknown."""
        system, precision = self.subject.system, self.subject.conditions.precision
        if place := self.subject.conditions.peak:
            attained = self._attained(place)
            self.notes.append(f"MFU of {attained / 1e12:.4g} TFLOP/s in {precision}, the fastest product of {place}")
            return lambda: attained
        if peak := system.peak_flops(precision):
            self.notes.append(f"MFU of {peak / 1e12:g} TFLOP/s, the peak of {system.name} in {precision}")
            return lambda: peak
        try:
            product = roof.product(self.subject.instruments, self.subject.device)
        except UserError as error:
            self.notes.append(f"MFU not known: {error}")
            return None
        self.notes.append(f"MFU of a matrix product of {roof.MATRIX} in {precision}, timed before and after each block")
        return lambda: product.now(self.subject.seconds / PRODUCTS)

    def _attained(self, place: str) -> float:
        """FLOP/s of the fastest matrix product in the probe at level=kernels.

        Raises UserError where it has none, or was made on another machine or with other threads than are here.
        """
        kept, conditions, system = record.read(Path(place)), self.subject.conditions, self.subject.system.name
        anew = (
            f"python -m suite.probe level=kernels framework={conditions.framework} precision={conditions.precision} "
            "out=FOLDER makes one"
        )
        for cell in kept.cells if (kept.level, kept.system) == ("kernels", system) else ():
            told = cell.figures.get(roof.PRODUCT)
            like = (cell.conditions.framework, cell.conditions.precision) == (
                conditions.framework,
                conditions.precision,
            )
            if like and told and told.value:
                if differing := _differing(kept):
                    raise UserError(f"peak={place} is not of this machine as it is now: {differing}: {anew}")
                self.notes += [f"the peak of {place} is NOISY: {why}" for why in kept.noisy]
                return 1e9 * told.value
        raise UserError(
            f"peak={place} is no probe at level=kernels of hw={system} in {conditions.framework} and "
            f"{conditions.precision}: {anew}"
        )


def _differing(kept: record.Probe) -> str | None:
    """How the machine of a kept probe, or its threads, differ from those here; None if they do not."""
    here = json.loads(record.dumps({**asdict(detect()), THREADS: environment()[THREADS]}))  # with lists, as it is kept
    there = {**kept.machine, THREADS: kept.environment.get(THREADS)}
    differing = (name for name in (*ALIKE, THREADS) if there.get(name) != here[name])
    return next((f"{name} {shown(there.get(name))}, here {shown(here[name])}" for name in differing), None)


measurement = Throughput
