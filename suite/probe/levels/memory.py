"""What a step holds when it holds most: weights, gradients, optimizer, saved activations; and that predicted.

The prediction is the line through the peaks at a quarter and at half of the batch.
"""

from __future__ import annotations

from dataclasses import asdict

from suite.errors import UserError
from suite.probe import measuring
from suite.probe.record import Cell, Row
from suite.probe.subject import Subject
from suite.probe.tracing import Memory, Tracked

LEAST_BATCH = 4


class Measurement:
    """See `levels.Measurement`."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.notes = subject, list[str]()
        self.smaller = self._smaller()
        self.tracked = subject.memory()
        self.workload = subject.build()
        self.repeats: list[Memory] = []
        self.held: list[list[int]] = []  # the peaks of the smaller batches in each repeat
        self.plain: list[float] = []

    def repeat(self) -> None:
        """Track a step, and one of each smaller batch: in TensorFlow no two steps take operations in the same order."""
        self.plain.append(measuring.block(self.workload, 1))
        self.repeats.append(self.tracked.step())
        self.held.append([each.step().peak for each in self.smaller.values()])

    def found(self) -> Cell:
        """See `levels.Measurement`."""
        most = max(self.repeats, key=lambda each: each.peak)
        rows = [
            Row(name=name, values={"MB": held / 1e6, "share": 100 * held / (most.peak or 1)})
            for name, held in asdict(most).items()
            if name != "seconds"
        ]
        peaks, predicted = [each.peak for each in self.repeats], self._predicted()
        errors = [100 * (said / true - 1) for said, true in zip(predicted, peaks, strict=False)]
        ratios = [each.seconds / plain for each, plain in zip(self.repeats, self.plain, strict=True)]
        figures = {
            "peak": measuring.mean([each / 1e6 for each in peaks], "MB"),
            "predicted": measuring.mean([each / 1e6 for each in predicted], "MB"),
            "error": measuring.mean(errors, "%"),
            "overhead": measuring.mean(ratios, "x"),
        }
        columns = {"MB": "", "share": "%"}
        return Cell(conditions=self.subject.conditions, figures=figures, columns=columns, rows=rows, notes=self.notes)

    def _smaller(self) -> dict[int, Tracked]:
        """The same at a quarter and at half of the batch; none, with a note, if there are no smaller batches."""
        batch = self.subject.batch()
        if batch is None or batch < LEAST_BATCH:
            self.notes.append(f"not predicted: that takes a batch that can be chosen, of {LEAST_BATCH} or more")
            return {}
        try:
            return {each: self.subject.changed(batch=each).memory() for each in (batch // 4, batch // 2)}
        except UserError as error:
            self.notes.append(f"not predicted: {error}")
            return {}

    def _predicted(self) -> list[float]:
        """The predicted peak of each repeat in bytes; none, with a note, if steps say nothing about larger ones."""
        batch = self.subject.batch()
        if not self.smaller or batch is None:
            return []
        small, large = self.smaller
        if sum(first for first, _ in self.held) > sum(second for _, second in self.held):
            self.notes.append(
                f"not predicted: batch {small} held more than {large}: steps differ in more than their batch"
            )
            return []
        return [second + (second - first) / (large - small) * (batch - large) for first, second in self.held]


measurement = Measurement
