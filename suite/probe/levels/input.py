"""Steps on a task's own data and on noise; the share that goes to data; the loader alone, and the first touch.

A task's data lies on the device and a step sends indices, so loading is what gathers and alters samples before the
first layer is called. The first step also reads, converts and moves the training split, once per run.
"""

from __future__ import annotations

from suite.errors import UserError
from suite.probe import measuring
from suite.probe.record import Cell, Figure, Row
from suite.probe.subject import Subject
from suite.probe.tracing import Phases
from suite.probe.watching import Watching
from suite.probe.workload import Training

DATA = "data"  # the phase
COLUMNS = {"samples/s": "", "from": "", "to": "", "step": "ms"}


class Measurement:
    """See `levels.Measurement`."""

    def __init__(self, subject: Subject) -> None:
        conditions = subject.conditions
        if conditions.model or conditions.data or conditions.mode != "train":
            raise UserError("level=input trains a task on both real and synthetic data: leave out model=, mode=, data=")
        self.subject, self.notes = subject, list[str]()
        inside = subject.inside()
        self.first = measuring.timed(lambda: inside.made.train_until(1))
        self.watching = Watching(subject)
        self.noise = self._noise()
        self.noisy: list[float] = []
        self.phases: list[Phases] = []

    def repeat(self) -> None:
        """See `levels.Measurement`."""
        watching = self.watching
        self.phases.append(watching.repeat(watching.watched.phases))
        if self.noise:
            self.noisy.append(measuring.block(self.noise, watching.steps) / watching.steps)

    def found(self) -> Cell:
        """See `levels.Measurement`."""
        samples, plain = self.watching.workload.samples, self.watching.plain
        times = {"real": plain, "synthetic": self.noisy}
        rates = {name: measuring.mean([samples / each for each in its], "1/s") for name, its in times.items()}
        shares = [100 * each.spent.get(DATA, 0.0) / each.seconds for each in self.phases]
        spent = [each.spent.get(DATA, 0.0) / each.steps for each in self.phases]
        bound = [100 * (1 - noise / real) for noise, real in zip(self.noisy, plain, strict=False)]
        touch = self.first - self.watching.step
        figures = {
            "samples/s": rates["real"],
            "synthetic": rates["synthetic"],
            "input-bound": measuring.mean(bound, "%"),
            "data phase": measuring.mean(shares, "%"),
            "loader alone": measuring.mean([samples / each for each in spent if each], "1/s"),
            "first touch": Figure(value=1e3 * touch if touch > 0 else None, unit="ms"),
            "overhead": self.watching.figures()["overhead"],
        }
        rows = []
        for name, rate in rates.items():
            step = measuring.mean([1e3 * each for each in times[name]], "ms").value
            rows.append(
                Row(name=name, values={"samples/s": rate.value, "from": rate.low, "to": rate.high, "step": step})
            )
        return Cell(conditions=self.subject.conditions, figures=figures, columns=COLUMNS, rows=rows, notes=self.notes)

    def _noise(self) -> Training | None:
        """Training on noise, warmed up; None, with a note, if noise cannot stand in for the data."""
        try:
            inside = self.subject.changed(data="synthetic").inside()
        except UserError as error:
            self.notes.append(f"not measured on noise: {error}")
            return None
        workload = Training(inside.made, inside.benchmark)
        measuring.first_steps(workload, self.subject.seconds / 2)
        return workload


measurement = Measurement
