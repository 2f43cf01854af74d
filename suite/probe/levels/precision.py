"""Speed, numeric error and quality of trained models in each precision; those that the machine lacks say why.

Each repeat trains a model by a seed of its own through the seam, and the task's own score tells its quality. The
numeric error is of what the first steps change, against the same steps in fp32: implementations train in no float64.
"""

from __future__ import annotations

import numpy as np

from suite.errors import UserError
from suite.probe import measuring, training
from suite.probe.record import Cell, Figure, Row
from suite.probe.subject import SEED, Subject
from suite.probe.training import Trained
from suite.probe.workload import Training
from suite.record.states import State

TAKES = ("samples",)
DEFAULTS = {"precision": "fp32,tf32,bf16,fp16,int8"}
EXACT = "fp32"
STEPS = (1, 10)  # after which the error is told
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

    def _errors(self) -> dict[int, float | None]:
        """The error of what the state changed by, L2, relative; not known of what the others are held to."""
        if self.subject.conditions.precision == EXACT:
            self.notes.append(f"{EXACT} is what the others' error is against")
            return dict.fromkeys(STEPS)
        exact = self.subject.changed(precision=EXACT).inside()
        initial = exact.made.state_dict()
        other = self.subject.inside()
        other.made.load_state_dict(initial)
        found: dict[int, float | None] = {}
        seen = 0, 0
        for step in range(1, max(STEPS) + 1):
            seen = exact.made.train_until(seen[0] + 1).samples, other.made.train_until(seen[1] + 1).samples
            if step in STEPS:
                found[step] = _distance(initial, exact.made.state_dict(), other.made.state_dict())
        return found


def _distance(initial: State, exact: State, other: State) -> float | None:
    """How far one state is from another, relative to how far that came from where both began."""
    names = [name for name, array in initial.items() if array.dtype.kind == "f" and name in other]
    off = sum(float(np.square(np.float64(other[name]) - exact[name]).sum()) for name in names)
    came = sum(float(np.square(np.float64(exact[name]) - initial[name]).sum()) for name in names)
    return (off / came) ** 0.5 if came and np.isfinite(off) else None


measurement = Measurement
