"""Speed, numeric error and quality of trained models in each precision; those that the machine lacks say why.

Each repeat trains a model with its own seed through the seam, and the task's own score tells its quality. The numeric
error is that of what the first steps change, against a shadow of the same steps in float64 (`suite.probe.shadow`). For
whole numbers that the code does not train in, weights are rounded after training (`suite.probe.rounding`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from suite.config.models import Benchmark
from suite.errors import UserError
from suite.probe import levels, measuring, rounding, training
from suite.probe.record import Cell, Figure, Row, one_line
from suite.probe.shadow import STEPS
from suite.probe.subject import SEED, Subject
from suite.probe.training import Trained
from suite.probe.workload import Training

TAKES = ("samples",)
WHOLE = True
DEFAULTS = {"precision": "fp32,tf32,bf16,fp16,int8"}
COLUMNS = {"quality": "", "samples": "trained", "reached": "the target"}


class TrainedIn:
    """A precision that the code trains in; see `levels.Measurement`."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.notes = subject, list[str]()
        inside = subject.inside()
        self.benchmark = inside.benchmark
        self.errors = self._errors()
        self.workload = Training(inside.made, inside.benchmark)
        self.steps = measuring.steps_after_warm_up(self.workload, subject.seconds / 2, subject.seconds)
        self.rates: list[float] = []
        self.trained: list[Trained] = []

    def repeat(self) -> None:
        """See `levels.Measurement`."""
        self.trained.append(replace(training.train(self.subject, SEED + len(self.trained)), state={}))
        self.rates.append(self.steps * self.workload.samples / measuring.block(self.workload, self.steps))

    def found(self) -> Cell:
        """See `levels.Measurement`."""
        errors = {f"error, step {step}": Figure(value=error, unit="") for step, error in self.errors.items()}
        figures = {
            "samples/s": measuring.mean(self.rates, "1/s"),
            **errors,
            **_qualities(self.benchmark, self.trained, self.subject.conditions.samples),
        }
        rows, notes = _rows(self.benchmark, self.trained), [*self.notes, *_failed(self.trained)]
        return Cell(conditions=self.subject.conditions, figures=figures, columns=COLUMNS, rows=rows, notes=notes)

    def _errors(self) -> Mapping[int, float | None]:
        """The relative error (L2) of the first steps' change; unknown, with a note, without a shadow."""
        try:
            found = self.subject.instruments.shadowed(self.subject.build, self.subject.device)
        except Exception as error:  # whatever a framework raises, such as for want of memory: float64 takes more
            self.notes.append(f"not held to float64: {one_line(error)}")
            return dict.fromkeys(STEPS)
        if found.refused:
            self.notes.append(f"float64 but for {', '.join(found.refused)}")
        return found.after


class RoundedTo:
    """Training in fp32, with the weights then rounded to so many bits; see `levels.Measurement`."""

    def __init__(self, subject: Subject, bits: int) -> None:
        self.conditions, self.bits = subject.conditions, bits
        self.subject = subject.changed(precision=rounding.TRAINED_IN)
        self.benchmark = subject.benchmark()
        self.whole: list[Trained] = []
        self.trained: list[Trained] = []

    def repeat(self) -> None:
        """See `levels.Measurement`."""
        seed = SEED + len(self.trained)
        whole = training.train(self.subject, seed)
        state = rounding.rounded(whole.state, self.bits)
        inside = self.subject.inside(seed)
        inside.made.load_state_dict(state)
        self.whole.append(replace(whole, state={}))
        self.trained.append(replace(whole, state={}, quality=training.quality(inside, inside.data)))

    def found(self) -> Cell:
        """See `levels.Measurement`. The speed is unknown: it would take hardware for such products."""
        metric = self.benchmark.metric
        before = measuring.mean([each.quality for each in self.whole if each.quality is not None], "")
        figures = {
            "samples/s": Figure(value=None, unit="1/s"),
            **_qualities(self.benchmark, self.trained, self.subject.conditions.samples),
            f"{metric} before": before,
        }
        rows = _rows(self.benchmark, self.trained)
        notes = [
            f"trained in {rounding.TRAINED_IN}; then each weight of two axes or more rounded to {self.bits} bits, "
            "with a scale for each index of its first axis; products stay as they are",
            *_failed(self.trained),
        ]
        return Cell(conditions=self.conditions, figures=figures, columns=COLUMNS, rows=rows, notes=notes)


def measurement(subject: Subject) -> levels.Measurement:
    """See `levels.Level`."""
    conditions = subject.conditions
    if conditions.mode != "train":
        raise UserError(f"mode={conditions.mode}: level=precision trains models")
    if conditions.task and (bits := rounding.bits(conditions.precision, subject.module(conditions.task))):
        return RoundedTo(subject, bits)
    return TrainedIn(subject)


def _qualities(benchmark: Benchmark, trained: Sequence[Trained], wanted: int | None) -> dict[str, Figure]:
    """`samples` are those to the target, over the trainings that reached it, or all if a number was `wanted`."""
    return {
        benchmark.metric: measuring.mean([each.quality for each in trained if each.quality is not None], ""),
        "samples": measuring.mean([each.samples for each in trained if wanted or _reached(benchmark, each)], ""),
    }


def _reached(benchmark: Benchmark, trained: Trained) -> bool:
    return trained.quality is not None and benchmark.reached(trained.quality)


def _rows(benchmark: Benchmark, trained: Sequence[Trained]) -> list[Row]:
    return [
        Row(
            name=f"seed {seed}",
            values={
                "quality": each.quality,
                "samples": each.samples,
                "reached": "yes" if _reached(benchmark, each) else "no",
            },
        )
        for seed, each in enumerate(trained, SEED)
    ]


def _failed(trained: Sequence[Trained]) -> list[str]:
    failed = sum(each.quality is None for each in trained)
    return [f"{failed} of {len(trained)} trainings came to no score"] if failed else []
