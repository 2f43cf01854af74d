"""Measurements of a system that were kept: a probe at level=clock, or the times of a task's bricks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from mlperf_logging.mllog.constants import GLOBAL_BATCH_SIZE
from pydantic import Field, TypeAdapter, ValidationError

from suite import config
from suite.bricks import record as bricks
from suite.bricks.composing import Composed, compose, counted
from suite.bricks.record import Model, Timings
from suite.config.models import Benchmark, System
from suite.errors import UserError, printable
from suite.forecast import rates
from suite.forecast.rates import Rates
from suite.measure.accelerators.devices import Accelerator
from suite.measure.machine import Machine
from suite.measure.systems import precision_of, resolve
from suite.probe import record
from suite.probe.record import Conditions, Probe

ACCELERATORS = TypeAdapter(Annotated[tuple[Accelerator, ...], Field(max_length=1000)])


@dataclass(frozen=True)
class Measurement:
    """The measurement that lies at `place`, the value of from=."""

    place: str
    found: Probe | Timings

    def system(self, here: Machine) -> System:
        """The system that was measured; one that no file of conf/hw/ describes is made from the recorded machine."""
        return resolve(config.system(self.found.system), self.node(here))

    def node(self, here: Machine) -> Machine:
        """The machine that was measured, as far as system, price and power depend on it; the rest is `here`'s.

        Raises UserError if its record of accelerators is not valid.
        """
        told = self.found.machine
        try:
            node = replace(here, accelerators=ACCELERATORS.validate_python(told.get("accelerators", ())))
        except ValidationError as error:
            raise UserError(f"from={self.place} does not tell its machine's accelerators") from error
        cpus = told.get("logical_cpus")
        return replace(node, logical_cpus=cpus) if isinstance(cpus, int) and 0 < cpus < 1e6 else node

    def rates(self, benchmark: Benchmark, framework: str, batch: int | None, system: System, node: Machine) -> Rates:
        """The rates of a worker of the system, at `batch` or the benchmark's own batch size.

        `node` is a machine of the system. Raises UserError if the measurement does not tell them.
        """
        if isinstance(self.found, Probe):
            return self._clock(self.found, benchmark, framework, batch, precision_of(system, node, benchmark))
        return self._bricks(self.found, benchmark, framework, batch, system, node)

    def _clock(self, probe: Probe, benchmark: Benchmark, framework: str, batch: int | None, own: str) -> Rates:
        """The rates of a cell that was measured, in the run's `own` precision if there is one, else in another."""
        if probe.level != rates.LEVEL:
            raise UserError(
                f"from={self.place} is a probe at level={probe.level}: a forecast takes one at level={rates.LEVEL}"
            )
        cells = [cell for cell in probe.cells if _is_of(cell.conditions, benchmark, framework, batch)]
        if not cells:
            raise self._other([cell.conditions for cell in probe.cells], benchmark, framework, batch)
        cell = min(cells, key=lambda each: (each.error is not None, each.conditions.precision != own))
        found = rates.measured(cell, f"probe of {probe.date} on hw={probe.system}, {self.place}", benchmark)
        notes = [f"NOISY: {why}" for why in probe.noisy]
        if (precision := cell.conditions.precision) != own:
            notes.append(f"it was probed in {precision}, a run there is in {own}: probe with precision={own}")
        return replace(found, notes=(*found.notes, *map(printable, notes)))

    def _bricks(
        self, timings: Timings, benchmark: Benchmark, framework: str, batch: int | None, system: System, node: Machine
    ) -> Rates:
        if timings.mode != "train":
            raise UserError(
                f"from={self.place} has bricks of mode={timings.mode}: a forecast takes those of mode=train"
            )
        for model in timings.models:
            if _is_of(model.conditions, benchmark, framework, batch):
                source = f"bricks in {timings.precision} of {timings.date} on hw={timings.system}, {self.place}"
                told = model.conditions.model_copy(update={"mode": "infer", "batch": None})
                evaluation = next((each for each in timings.models if each.conditions == told), None)
                return _composed(model, evaluation, timings, benchmark, source, system, node)
        raise self._other([model.conditions for model in timings.models], benchmark, framework, batch)

    def _other(self, held: list[Conditions], benchmark: Benchmark, framework: str, batch: int | None) -> UserError:
        batch = batch or benchmark.hyperparameters.get(GLOBAL_BATCH_SIZE)
        size = f" at batch size {batch}" if batch else ""
        holds = "; ".join(each.described for each in held) or "no models"
        return UserError(f"from={self.place} holds {holds}: nothing of {benchmark.name} in {framework}{size}")


def read(place: str) -> Measurement:
    """Read what from= names: the folder of a probe, or the file that `python -m suite.bricks measure` wrote.

    Raises UserError if it is neither, or if conf/ does not have its system.
    """
    path = Path(place)
    try:
        kept = Measurement(place, bricks.read(Timings, path) if bricks.holds(Timings, path) else record.read(path))
    except UserError as error:
        raise UserError(
            f"from={error}; a forecast takes what python -m suite.probe level={rates.LEVEL} out=PATH or "
            "python -m suite.bricks measure BRICKS out=PATH wrote"
        ) from error
    config.load("hw", kept.found.system)
    return kept


def _is_of(told: Conditions, benchmark: Benchmark, framework: str, batch: int | None) -> bool:
    own = benchmark.hyperparameters.get(GLOBAL_BATCH_SIZE)
    return (told.task, told.scale, told.framework, told.mode, told.implementation, told.size, told.batch or own) == (
        (benchmark.task, benchmark.scale, framework, "train", None, None, batch or own)
    )


def _composed(
    step: Model,
    evaluation: Model | None,
    timings: Timings,
    benchmark: Benchmark,
    source: str,
    system: System,
    node: Machine,
) -> Rates:
    times = counted(timings)
    taken, evaluated = (each and compose(each, times, timings.cache, timings.pace) for each in (step, evaluation))
    assert taken
    if not taken.sequential.value:
        raise UserError(f"{source}: none of its bricks could be timed")
    samples = step.conditions.batch or benchmark.hyperparameters.get(GLOBAL_BATCH_SIZE, 1)
    seconds = _with_scoring(evaluated, timings.pace) if evaluated else None
    step_s, host_s = taken.sequential.value / 1e3, (taken.between or 0.0) / 1e3
    estimated = rates.composed(benchmark, samples, step_s, host_s, seconds, source, system, node)
    notes = [f"NOISY: {why}" for why in timings.noisy]
    own = precision_of(system, node, benchmark)
    if timings.precision != own:
        notes.append(f"its bricks are in {timings.precision}, a run there is in {own}: make them with precision={own}")
    for what, each in (("a step", taken), ("an evaluation", evaluated)):
        if each:
            notes += _lacking(what, each)
    along, caution = rates.along(benchmark, np.array(step.at), np.array(taken.batches) / 1e3)
    return replace(estimated, notes=(*caution, *estimated.notes, *map(printable, notes)), along=along)


def _with_scoring(evaluation: Composed, pace: float | None) -> tuple[float, float | None] | None:
    """Seconds of an evaluation, and of its scoring or None if not known. None for both if its bricks have no times."""
    scoring = evaluation.model.scoring
    if evaluation.sequential.value is None:
        return None
    if scoring is None or pace is None:
        return evaluation.sequential.value / 1e3, None
    seconds = scoring * pace / 1e6
    return evaluation.sequential.value / 1e3 + seconds, seconds


def _lacking(what: str, composed: Composed) -> Iterator[str]:
    without = sum(composed.model.left_out.values())
    if lacking := without + composed.missing:
        calls = composed.model.calls + without
        yield f"{lacking} of {calls} calls of {what} have no brick, and are not counted"
    if composed.between is None:
        yield f"what the host does between the calls of {what} is not counted"
