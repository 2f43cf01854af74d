"""An implementation as the trials train it, and what one of them found."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from suite.check.training import State, copied
from suite.harness.implementation import TrainStats
from suite.record.equivalence import Trial

BEYOND = 1e9  # in the place of what is no finite number


class Trainee(Protocol):
    """An implementation as the trials use it, in this process or in another; `contract.Checked` is one."""

    def train_until(self, samples: int) -> TrainStats:
        """See `suite.harness.implementation.Implementation`."""
        ...

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """What it predicts of all arrays `data` of the benchmark, of which it is given those of the evaluation."""
        ...

    def state_dict(self) -> dict[str, np.ndarray]:
        """See `suite.harness.implementation.Implementation`."""
        ...

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """See `suite.harness.implementation.Implementation`."""
        ...


@dataclass(frozen=True)
class Trained:
    """Where steps led: the state, the loss of the last, the samples counted, the seconds that they took."""

    state: State
    loss: float | None
    samples: int
    seconds: float


def train(made: Trainee, state: Mapping[str, np.ndarray], steps: int) -> Trained:
    """Steps from a state."""
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
