"""The training that trials do, and the record of what a trial found."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from suite.check.training import copied
from suite.harness.implementation import Implementation
from suite.record.equivalence import Trial
from suite.record.states import State

BEYOND = 1e9  # the largest value that is recorded, also for one that is not finite


@dataclass(frozen=True)
class Trained:
    """The result of some steps: the state, the loss of the last step, the samples counted, the seconds taken."""

    state: State
    loss: float | None
    samples: int
    seconds: float


def train(made: Implementation, state: Mapping[str, np.ndarray], steps: int) -> Trained:
    """Train `steps` steps from `state`."""
    made.load_state_dict(copied(state))
    began = time.perf_counter()
    for _ in range(steps):
        stats = made.train_until(1)  # which takes one step, however many samples were seen before
    return Trained(copied(made.state_dict()), stats.loss, stats.samples, time.perf_counter() - began)


def found(
    trial: str, precision: str, value: float | None, bound: float | None, where: str = "", remark: str = ""
) -> Trial:
    """The row of a trial that found `value`."""
    if value is not None and not value <= BEYOND:
        value = BEYOND
    return Trial(trial=trial, precision=precision, found=value, bound=bound, where=where, remark=remark)
