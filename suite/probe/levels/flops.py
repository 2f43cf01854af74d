"""Floating-point operations of matrix products and convolutions, by operator, as the framework counts them.

A multiplication and an addition count as two. The figures are those of a step, the mean of the first few.
"""

from __future__ import annotations

import time

from suite.probe import measuring
from suite.probe.record import Cell, Figure, Row
from suite.probe.subject import COUNTED_STEPS, Subject
from suite.probe.tracing import uncounted
from suite.probe.workload import Workload


class Measurement:
    """See `levels.Measurement`. What is counted does not change: repeats measure what counting costs."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        with subject.first_steps() as steps:
            began = time.perf_counter()
            self.counts = subject.instruments.flops(steps)
            self.counting = time.perf_counter() - began
        self.workload: Workload = subject.build()
        measuring.block(self.workload, COUNTED_STEPS)
        self.plain: list[float] = []

    def repeat(self) -> None:
        """See `levels.Measurement`."""
        self.plain.append(measuring.block(self.workload, COUNTED_STEPS))

    def found(self) -> Cell:
        """See `levels.Measurement`."""
        why = uncounted(self.counts)
        whole = None if why else sum(filter(None, self.counts.values())) / COUNTED_STEPS
        rows = []
        for name, count in sorted(self.counts.items(), key=lambda item: -(item[1] or 0)):
            each = None if count is None else count / COUNTED_STEPS
            share = 100 * each / whole if each and whole else None
            rows.append(Row(name=name, values={"GFLOP": None if each is None else each / 1e9, "share": share}))
        figures = {
            "MFLOP/sample": Figure(value=None if whole is None else whole / self.workload.samples / 1e6, unit=""),
            "GFLOP/step": Figure(value=None if whole is None else whole / 1e9, unit=""),
            "overhead": measuring.mean([self.counting / plain for plain in self.plain], "x"),
        }
        columns = {"GFLOP": "a step", "share": "%"}
        unlike = whole and self.subject.unlike_a_run(whole, self.workload.samples)
        notes = [each for each in (why, unlike) if each]
        return Cell(conditions=self.subject.conditions, figures=figures, columns=columns, rows=rows, notes=notes)


measurement = Measurement
