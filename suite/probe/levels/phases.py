"""What data, forward, loss, backward and update of a training step take; what is left over, flagged over 2 %.

Data is everything before the first layer is called, loss everything between the layers and the gradient. In TensorFlow
a phase is the time of its operations, and operations that run at once share the time. What is left over is the time of
the executor and the host between operations.
"""

from __future__ import annotations

from suite.errors import UserError
from suite.probe import measuring
from suite.probe.record import Cell, Row
from suite.probe.subject import Subject
from suite.probe.tracing import PHASES, Phases
from suite.probe.watching import Watching

MOST_RESIDUAL = 0.02


class Measurement:
    """See `levels.Measurement`."""

    def __init__(self, subject: Subject) -> None:
        if subject.conditions.mode != "train":
            raise UserError(f"mode={subject.conditions.mode}: level=phases looks at training steps")
        self.subject, self.watching = subject, Watching(subject)
        self.repeats: list[Phases] = []

    def repeat(self) -> None:
        """See `levels.Measurement`."""
        self.repeats.append(self.watching.repeat(self.watching.watched.phases))

    def found(self) -> Cell:
        """See `levels.Measurement`."""
        rows, names = [], {name for each in self.repeats for name in each.spent}
        for name in (*PHASES, *sorted(names - set(PHASES))):
            shares = [100 * each.spent.get(name, 0.0) / each.seconds for each in self.repeats]
            mean = measuring.mean(shares, "%")
            rows.append(Row(name=name, values={"share": mean.value, "from": mean.low, "to": mean.high}))
        left = [100 * (1 - sum(each.spent.values()) / each.seconds) for each in self.repeats]
        residual = measuring.mean(left, "%")
        assert residual.value is not None
        flagged = abs(residual.value) > 100 * MOST_RESIDUAL
        notes = [f"residual over {100 * MOST_RESIDUAL:g} %: the phases do not tell the whole step"] if flagged else []
        return Cell(
            conditions=self.subject.conditions,
            figures={**self.watching.figures(), "residual": residual},
            columns={"share": "%", "from": "%", "to": "%"},
            rows=rows,
            notes=notes,
        )


measurement = Measurement
