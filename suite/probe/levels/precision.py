"""Speed, numeric error and quality of trained models in each precision; those that the machine lacks say why.

Each repeat trains a model by a seed of its own through the seam, and the task's own score tells its quality. The
numeric error is of what the first steps change, against a shadow of the same steps in float64 (`suite.probe.shadow`).
"""

from __future__ import annotations

from collections.abc import Mapping

from suite.errors import UserError
from suite.probe import measuring, training
from suite.probe.record import Cell, Figure, Row
from suite.probe.shadow import STEPS
from suite.probe.subject import SEED, Subject
from suite.probe.training import Trained
from suite.probe.workload import Training

TAKES = ("samples",)
DEFAULTS = {"precision": "fp32,tf32,bf16,fp16,int8"}
COLUMNS = {"quality": "", "samples": "trained", "reached": "the target"}


class Measurement:
    """See `levels.Measurement`."""

    def __init__(self, subject: Subject) -> None:
        if subject.conditions.mode != "train":
            raise UserError(f"mode={subject.conditions.mode}: level=precision trains models")
        self.subject, self.notes = subject, list[str]()
        inside = subject.inside()
        self.benchmark = inside.benchmark
        self.errors = self._errors()
        self.workload = Training(inside.made, inside.benchmark)
        first = measuring.first_steps(self.workload, subject.seconds / 2)
        self.steps = measuring.steps_for(subject.seconds, first[measuring.end_of_warm_up(first) :])
        self.rates: list[float] = []
        self.trained: list[Trained] = []

    def repeat(self) -> None:
        """See `levels.Measurement`."""
        self.rates.append(self.steps * self.workload.samples / measuring.block(self.workload, self.steps))
        self.trained.append(training.train(self.subject, SEED + len(self.trained)))

    def found(self) -> Cell:
        """See `levels.Measurement`."""
        qualities = [each.quality for each in self.trained if each.quality is not None]
        if failed := len(self.trained) - len(qualities):
            self.notes.append(f"{failed} of {len(self.trained)} trainings came to no score")
        rows = [
            Row(
                name=f"seed {seed}",
                values={
                    "quality": each.quality,
                    "samples": each.samples,
                    "reached": "yes" if each.quality is not None and self.benchmark.reached(each.quality) else "no",
                },
            )
            for seed, each in enumerate(self.trained, SEED)
        ]
        errors = {f"error, step {step}": Figure(value=error, unit="") for step, error in self.errors.items()}
        figures = {
            "samples/s": measuring.mean(self.rates, "1/s"),
            **errors,
            self.benchmark.metric: measuring.mean(qualities, ""),
            "samples": measuring.mean([each.samples for each in self.trained], ""),
        }
        return Cell(conditions=self.subject.conditions, figures=figures, columns=COLUMNS, rows=rows, notes=self.notes)

    def _errors(self) -> Mapping[int, float | None]:
        """By how much the first steps' change is off, L2, relative; not known in a framework without instruments."""
        try:
            found = self.subject.instruments.shadowed(self.subject.build, self.subject.device)
        except UserError as error:
            self.notes.append(f"not held to float64: {error}")
            return dict.fromkeys(STEPS)
        if found.refused:
            self.notes.append(f"float64 but for {', '.join(found.refused)}")
        return found.after


measurement = Measurement
