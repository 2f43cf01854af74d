"""A Chrome trace, for ui.perfetto.dev: run, steps, phases, layers and operators, one within the other.

The file holds a few steps, those of the last repeat.
"""

from __future__ import annotations

from suite.probe.record import Cell, Figure, Row
from suite.probe.subject import Subject
from suite.probe.tracing import Timeline
from suite.probe.watching import Watching

TAKES = ("trace",)
MOST_STEPS = 10  # of a trace
COLUMNS = {"spans": "", "a step": ""}


class Measurement:
    """See `levels.Measurement`."""

    def __init__(self, subject: Subject) -> None:
        assert subject.trace
        self.subject, self.path, self.watching = subject, subject.trace, Watching(subject)
        self.repeats: list[Timeline] = []

    def repeat(self) -> None:
        """See `levels.Measurement`."""
        timeline, watched = self.subject.instruments.timeline, self.watching.watched
        self.repeats.append(self.watching.repeat(lambda steps: timeline(watched, min(steps, MOST_STEPS), self.path)))

    def found(self) -> Cell:
        """See `levels.Measurement`."""
        last = self.repeats[-1]
        rows = [
            Row(name=kind, values={"spans": number, "a step": number / last.steps})
            for kind, number in last.spans.items()
        ]
        figures = {
            **self.watching.figures(),
            "steps": Figure(value=last.steps, unit=""),
            "file": Figure(value=self.path.stat().st_size / 1e6, unit="MB"),
        }
        notes = [f"{self.path}: open it in ui.perfetto.dev or chrome://tracing"]
        return Cell(conditions=self.subject.conditions, figures=figures, columns=COLUMNS, rows=rows, notes=notes)


measurement = Measurement
