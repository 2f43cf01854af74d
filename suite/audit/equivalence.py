"""The auditor's comparison of an implementation with the reference, each of the two in a process of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from weakref import finalize

import numpy as np

from suite.audit.process import Failed, Process
from suite.audit.replaying import Means, data_of, give_evaluation, load, read_predictions, saved, started, train
from suite.audit.subject import Run
from suite.check.equivalence.trials import Builder, Subject, equivalence
from suite.config.bounds import bounds
from suite.config.folder import ROOT
from suite.config.models import Benchmark
from suite.errors import UserError
from suite.harness.contestant import read
from suite.harness.implementation import Device, TrainStats, compared
from suite.measure import machine
from suite.record.equivalence import FILE, Comparison
from suite.record.states import State
from suite.rules.equivalence import beyond, cannot_tell
from suite.rules.finding import Checks, Finding
from suite.rules.implementation import contestant_of
from suite.store.code import CODE


@dataclass(frozen=True)
class Remote:
    """An implementation in another process, with the interface that trials use. Its answers are not trusted."""

    process: Process

    def train_until(self, samples: int) -> TrainStats:
        """Raises Failed for an answer without a count."""
        return train(self.process, samples)

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """Raises Failed for predictions that cannot be read."""
        give_evaluation(self.process, data)
        return read_predictions(self.process)[1]

    def state_dict(self) -> State:
        """Raises Failed for a state that cannot be read."""
        return saved(self.process)

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Raises Failed where the process does not take it."""
        load(self.process, dict(state))


def held(run: Run, means: Means) -> Comparison:
    """Run the trials on the implementation that trained a run, with the run's hyperparameters, in fp32 and its format.

    Raises Failed.
    """
    framework, _, precision, hyperparameters = run.configuration
    try:
        own = contestant_of(run.evidence) is not None
        own_draws = own and read(means.code / CODE, framework).declared.own_draws
    except UserError as error:
        raise Failed(f"its code: {error}") from error
    beside = compared(run.benchmark.task, framework)
    with ExitStack() as stack:
        apart = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="suite-audit-reference-")))
        hidden = None if means.hidden is None else [*means.hidden, apart]  # else the reference could be read
        reference = _builder(stack, run, replace(means, code=ROOT, place=apart, framework=beside), reference=True)
        candidate = _builder(stack, run, replace(means, hidden=hidden, framework=None))
        cpus = machine.detect().logical_cpus
        benchmark = run.benchmark.model_copy(update={"hyperparameters": hyperparameters})
        subject = Subject(benchmark, reference, candidate, data_of(run, means), means.kind, cpus, own_draws)
        try:
            return equivalence(subject, ("fp32", precision))
        except (KeyError, TypeError, ValueError) as error:  # for a state whose arrays change in form
            raise Failed(f"its states cannot be compared: {type(error).__name__}: {error}") from error


def _builder(stack: ExitStack, run: Run, means: Means, reference: bool = False) -> Builder:
    def build(benchmark: Benchmark, device: Device) -> Remote:
        given, own = replace(means, precision=device.precision), stack.enter_context(ExitStack())
        made = Remote(own.enter_context(started(run, given, benchmark.hyperparameters, reference)))
        finalize(made, own.close)  # after its last trial, not with all others at the end
        return made

    return build


HELD: Checks[Comparison] = Checks()


@HELD.rule("audit.9")
def holds(made: Comparison) -> Iterator[Finding]:
    """Every trial is within its bound."""
    for precision in dict.fromkeys(trial.precision for trial in made.trials):
        if bounds(precision) is None:
            yield cannot_tell(FILE, precision)
    for expected, found in beyond(made, set()):
        yield Finding(FILE, None, expected, found, "docs/equivalence.md says what the trial sees")
