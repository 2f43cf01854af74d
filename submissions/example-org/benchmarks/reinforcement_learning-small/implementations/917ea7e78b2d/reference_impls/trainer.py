"""What implementations that train step by step share in both frameworks: the loop, and how they are warmed up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from suite.harness.implementation import TrainStats


class Batched(Protocol):
    """Hyperparameters of steps that all have the same number of samples."""

    @property
    def global_batch_size(self) -> int:
        """Samples of a step."""
        ...


Hyper = TypeVar("Hyper", bound=Batched)
Fed = TypeVar("Fed")


class Trainer(ABC, Generic[Hyper, Fed]):
    """Trains step by step; `step` counts the steps taken, and `fed` has the input of the next ones, None until made."""

    hyper: Hyper
    step: int
    fed: Iterator[Fed] | None = None

    def train_until(self, samples: int) -> TrainStats:
        """Take whole steps until `samples` samples have been seen."""
        if self.fed is None:
            self.fed = self.feed()
        while True:
            loss = self.train_step(next(self.fed))
            self.step += 1
            seen = self.step * self.hyper.global_batch_size
            if seen >= samples:
                return TrainStats(seen, float(loss))

    def warmed_up(self) -> Self:
        """Call `warm_up`, restore the state from before it, and return the trainer."""
        initial = self.state_dict()
        self.warm_up()
        self.load_state_dict(initial)
        return self

    @abstractmethod
    def feed(self) -> Iterator[Fed]:
        """The input of each step from `step` on; it is called on the clock, so it may read the training data."""

    @abstractmethod
    def train_step(self, fed: Fed) -> Any:
        """Take one step; return its loss."""

    @abstractmethod
    def warm_up(self) -> None:
        """Trace and compile steps and evaluations of every shape, on made-up data.

        The largest shape comes first, since the others fit into its memory, unless one depends on another.
        """

    @abstractmethod
    def state_dict(self) -> dict[str, np.ndarray]:
        """See `suite.harness.implementation.Implementation`."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """See `suite.harness.implementation.Implementation`."""
