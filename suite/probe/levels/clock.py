"""What a run's clock counts: its start, a step, an evaluation with its scoring; and the power drawn meanwhile.

It is the very loop of a run, timed by its own log, with no target and with earlier evaluations than the benchmark's.
When the budget ends it starts over. A model that has hardly learnt may take several times as long to evaluate, so
before each evaluation it trains for a repeat's time or, if longer, for as long as the last evaluation took, but at most
to where a run would evaluate. If steps differ along a run (`uneven_steps` in conf/task/), each repeat is at another
place of it. `python -m suite.forecast` computes the time of a whole run from these figures.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from mlperf_logging.mllog import constants as keys

from suite.config.models import Benchmark, Evaluation
from suite.errors import UserError
from suite.harness.checkpoint import Checkpoints
from suite.harness.loop import Loop
from suite.measure.energy import energy
from suite.measure.machine import detect
from suite.measure.sampler import Sampler
from suite.measure.samples import read_samples
from suite.measure.systems import power_ceiling
from suite.probe import fast_forward, measuring
from suite.probe.record import Cell, Figure, Row, one_line
from suite.probe.subject import Subject
from suite.record import states
from suite.record.evidence import LOG, POWER
from suite.record.mllog import Line, Log, samples_of
from suite.store.disk import having_room
from suite.store.task import score

WHOLE = True
DATA = "data"  # the phase of a step
WATCHED_STEPS = 3
REPEAT, AT, STEP, EVALUATION = "repeat", "samples", "step", "evaluation"
COLUMNS = {REPEAT: "", AT: "seen", STEP: "ms", EVALUATION: "ms"}


class Clock:
    """See `levels.Measurement`."""

    def __init__(self, subject: Subject) -> None:
        conditions = subject.conditions
        if conditions.model or conditions.data or conditions.mode != "train":
            raise UserError("level=clock times what a run of a task does: leave out model=, mode=, data=")
        self.subject, self.notes = subject, list[str]()
        self.data = self._data()
        inside = subject.inside()
        self.made, self.initial = inside.made, inside.made.state_dict()
        self.seen = 0
        self.uneven = inside.benchmark.uneven_steps is not None
        self._begin(subject.seconds)
        # the most between two evaluations: where steps differ, those of a repeat are to be alike
        part = inside.benchmark.budget_samples // (4 * fast_forward.PLACES)
        self.most, self.evaluating = part if self.uneven else inside.benchmark.evaluation.first, 0.0
        goal = math.inf if inside.benchmark.direction == "higher" else -math.inf
        self.folder = tempfile.TemporaryDirectory()  # for the files that a run would leave
        place = Path(self.folder.name)
        self.log = Log(place / LOG)
        self.log.listeners.append(self._heard)
        self.ended = False  # whether this repeat's time is up, and its last evaluation done
        self.until = 0.0
        machine = detect()
        self.ceiling_w, self.library = power_ceiling(subject.system, machine), machine.library
        self.sampler = Sampler(place / POWER, self.log.now_ms, self.ceiling_w, subject.system.device_kind)
        self.sampler.start()
        self.repeats: list[tuple[int, int]] = []  # milliseconds of begin and end
        self.loop = Loop(
            benchmark=inside.benchmark.model_copy(update={"target": goal}),
            implementation=self.made,
            data=inside.data,
            score=lambda predictions: score(inside.benchmark, inside.task, predictions, inside.data),
            log=self.log,
            folder=place,
            checkpoints=Checkpoints(place, self.log),
            tick=lambda samples, rate: None,
            interrupted=lambda: self.ended,
        )

    def repeat(self) -> None:
        """Blocks of steps, each with its evaluation, until the time of a repeat is up."""
        try:
            with having_room(self.folder.name):
                self._repeated()
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        """Stop sampling the machine, since other cells may be measured next."""
        self.sampler.stop()
        self.log.close()

    def _repeated(self) -> None:
        self._to_place()
        if self.seen < self.loop.benchmark.budget_samples:  # off the clock: see `measuring.block`
            self.seen = self.made.train_until(self.seen + 1).samples
        self.sampler.sample()  # so that no interval holds a part of two cells' repeats
        began, self.ended = self.log.now_ms(), False
        self.until = time.monotonic() + self.subject.seconds
        while not self.ended:
            if self.seen >= self.loop.benchmark.budget_samples:  # where the first steps went past it
                self._anew()
            self.loop.benchmark = self._with_evaluations_sooner()
            before = self.seen
            reason = self.loop.run(before)
            if reason == "diverged" and self.seen == before:
                raise UserError("training diverged before its first evaluation: its loss is no number")
            if reason != "interrupt":
                self._anew()
        self.sampler.sample()
        self.repeats.append((began, self.evaluated_ms))  # not the checkpoint after it, which a run seldom writes

    def found(self) -> Cell:
        """See `levels.Measurement`."""
        self._stop()
        rows = self._rows()
        power = self._power()
        self.folder.cleanup()
        steps, evaluations = ([row.number(name) or 0.0 for row in rows] for name in (STEP, EVALUATION))
        learnt = evaluations[len(evaluations) // 2 :]  # those of a model that has learnt a little
        figures = {
            "start": Figure(value=1e3 * self.start, unit="ms"),
            STEP: measuring.mean(steps, "ms"),
            "first evaluation": Figure(value=evaluations[0], unit="ms"),
            EVALUATION: measuring.mean(learnt, "ms"),
            "samples/step": Figure(value=self.samples, unit=""),
            "data phase": Figure(value=self.data, unit="%"),
            "power": power,
            "weights": Figure(value=weights(self.initial) / 1e6, unit="MB"),
        }
        return Cell(conditions=self.subject.conditions, figures=figures, columns=COLUMNS, rows=rows, notes=self.notes)

    def _anew(self) -> None:
        self.made.load_state_dict(self.initial)
        self.seen = 0
        self._to_place()

    def _to_place(self) -> None:
        """Go to this repeat's place of a run, if steps differ along it."""
        if not self.uneven:
            return
        at = fast_forward.go_to(self.made, self.seen, fast_forward.place(self.loop.benchmark, len(self.repeats)))
        if at is None:
            self.uneven = False
            self.notes.append("the first steps alone: no counter in the state tells where in a run it is")
        else:
            self.seen = at

    def _with_evaluations_sooner(self) -> Benchmark:
        """The benchmark, evaluated after a repeat's time or, if longer, the last evaluation's, in whole steps."""
        steps = round(max(self.subject.seconds, self.evaluating) / self.step)
        every = max(min(steps, self.most // self.samples), 1) * self.samples
        evaluation = Evaluation(first=self.seen + every, every=every)
        return self.loop.benchmark.model_copy(update={"evaluation": evaluation})

    def _begin(self, seconds: float) -> None:
        """Take the first steps: `step` is the seconds of a later one, `start` what all took beyond that."""
        times = measuring.first_times(lambda: measuring.timed(self._take_step), seconds)
        self.step = float(np.median(times[measuring.end_of_warm_up(times) :]))
        self.start = max(sum(times) - len(times) * self.step, 0.0)

    def _take_step(self) -> None:
        before = self.seen
        self.seen = self.made.train_until(before + 1).samples
        self.samples = self.seen - before

    def _heard(self, line: Line) -> None:
        if line.key == keys.EVAL_START:
            self.evaluation_began = time.monotonic()
        if line.key == keys.EVAL_STOP:
            self.evaluating = time.monotonic() - self.evaluation_began
            self.seen, self.evaluated_ms = samples_of(line) or 0, line.time_ms
            self.ended = time.monotonic() >= self.until

    def _rows(self) -> list[Row]:
        """A row for each block with its evaluation, from the log."""
        rows: list[Row] = []
        at: dict[str, Line] = {}
        for line in self.log.lines:
            if line.key == keys.BLOCK_START:
                at.clear()
            at[line.key] = line
            if line.key != keys.BLOCK_STOP or keys.EVAL_START not in at:
                continue
            began, trained = at[keys.BLOCK_START], at[keys.EVAL_START]
            samples = samples_of(trained) or 0
            steps = (samples - (samples_of(began) or 0)) / self.samples
            rows.append(
                Row(
                    name=f"block {len(rows) + 1}",
                    values={
                        REPEAT: self._repeat(trained.time_ms),
                        AT: samples,
                        STEP: (trained.time_ms - began.time_ms) / steps,
                        EVALUATION: line.time_ms - trained.time_ms,
                    },
                )
            )
        return rows

    def _repeat(self, time_ms: int) -> int:
        """The number of the repeat that `time_ms` lies in, from 1."""
        return next(at for at, (began, ended) in enumerate(self.repeats, 1) if began <= time_ms <= ended)

    def _power(self) -> Figure:
        """The mean watts over the repeats; unknown if nothing measures them."""
        samples = read_samples(Path(self.folder.name) / POWER)
        found = [energy(samples, *each, self.ceiling_w, library=self.library) for each in self.repeats]
        cpus = [each for each in found if each.covers and "accelerator" not in each.covers]
        if cpus and self.subject.system.device_kind == "gpu":
            self.notes.append(f"power not known: {cpus[0].source} alone tells it, without the accelerators")
            return Figure(value=None, unit="W")
        watts = [each.mean_w for each in found if each.mean_w is not None]
        if watts:
            self.notes.append(f"power is {found[0].source}")
        return measuring.mean(watts, "W") if len(watts) == len(found) else Figure(value=None, unit="W")

    def _data(self) -> float | None:
        """The data phase's share of watched steps, in %; None, with a note, if their phases cannot be watched.

        Of a step that a compiler has joined it would be too much: watched steps are taken apart.
        """
        try:
            watched = self.subject.watched()
            watched.phases(1)
            phases = watched.phases(WATCHED_STEPS)
        except Exception as error:  # whatever a framework raises where it cannot be watched
            self.notes.append(f"the data phase is not known: {one_line(error)}")
            return None
        return 100 * phases.spent.get(DATA, 0.0) / phases.seconds


def weights(state: Mapping[str, np.ndarray]) -> int:
    """Bytes of a state's weights, whose gradients workers send."""
    return sum(state[name].nbytes for name in states.weights(state))


measurement = Clock
