"""What a step holds when it holds most: weights, gradients, optimizer, saved activations; and that predicted.

The prediction is the line through what a quarter and a half of the batch hold at most.
"""

from __future__ import annotations

from suite.errors import UserError
from suite.probe import measuring
from suite.probe.record import Cell, Figure, Row
from suite.probe.subject import Subject
from suite.probe.tracing import Memory

LEAST_BATCH = 4
PARTS = ("parameters", "buffers", "gradients", "optimizer", "saved", "temporary")


class Measurement:
    """See `levels.Measurement`."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.notes = subject, list[str]()
        self.predicted = self._predicted()
        self.tracked = subject.memory()
        self.workload = subject.build()
        self.repeats: list[Memory] = []
        self.plain: list[float] = []

    def repeat(self) -> None:
        """See `levels.Measurement`."""
        self.plain.append(measuring.block(self.workload, 1))
        self.repeats.append(self.tracked.step())

    def found(self) -> Cell:
        """See `levels.Measurement`."""
        most = max(self.repeats, key=lambda each: each.peak)
        rows = [
            Row(
                name=name,
                values={"MB": getattr(most, name) / 1e6, "share": 100 * getattr(most, name) / (most.peak or 1)},
            )
            for name in PARTS
        ]
        error = None if self.predicted is None else 100 * (self.predicted / most.peak - 1)
        ratios = [each.seconds / plain for each, plain in zip(self.repeats, self.plain, strict=True)]
        figures = {
            "peak": measuring.mean([each.peak / 1e6 for each in self.repeats], "MB"),
            "predicted": Figure(value=None if self.predicted is None else self.predicted / 1e6, unit="MB"),
            "error": Figure(value=error, unit="%"),
            "overhead": measuring.mean(ratios, "x"),
        }
        columns = {"MB": "", "share": "%"}
        return Cell(conditions=self.subject.conditions, figures=figures, columns=columns, rows=rows, notes=self.notes)

    def _predicted(self) -> float | None:
        """Bytes at the peak; None, and a note, where there are no smaller batches."""
        batch = self.subject.batch()
        if batch is None or batch < LEAST_BATCH:
            self.notes.append(f"not predicted: that takes a batch that can be chosen, of {LEAST_BATCH} or more")
            return None
        try:
            small, large = batch // 4, batch // 2
            first, second = (self.subject.of_batch(each).memory().step().peak for each in (small, large))
        except UserError as error:
            self.notes.append(f"not predicted: {error}")
            return None
        if second < first:
            self.notes.append(
                f"not predicted: batch {small} held more than {large}: steps differ in more than their batch"
            )
            return None
        return second + (second - first) / (large - small) * (batch - large)


measurement = Measurement
