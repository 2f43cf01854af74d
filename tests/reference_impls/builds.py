"""The implementations of a case, built once for all tests, and what their building read."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from suite.harness.contract import evaluation_data
from suite.harness.implementation import TrainStats
from tests.reference_impls.cases import Case, build


def assert_same(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> None:
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert array.dtype == theirs[name].dtype, name
        assert np.array_equal(array, theirs[name]), name


def goes_on(made, cut: int, end: int) -> tuple[Mapping[str, np.ndarray], float]:
    """Assert that it goes on from the state at `cut` samples as if never stopped; that state, and the loss at `end`."""
    made.train_until(cut)
    state = made.state_dict()
    loss = made.train_until(end).loss
    whole = made.state_dict()
    made.load_state_dict(state)
    assert made.train_until(end).loss == loss
    assert_same(whole, made.state_dict())
    return state, loss


class Watched(np.ndarray):
    """An array that notes that it was read."""

    reads: list[str] = []  # noqa: RUF012 (of all of them)

    def __array_function__(self, function, types, arguments, keywords):
        self.reads.append(function.__name__)
        return super().__array_function__(function, types, arguments, keywords)

    def __array_ufunc__(self, function, method, *inputs, **keywords):
        self.reads.append(function.__name__)
        plain = [x.view(np.ndarray) if isinstance(x, Watched) else x for x in inputs]
        return getattr(function, method)(*plain, **keywords)

    def __getitem__(self, key):
        self.reads.append("[]")
        return super().__getitem__(key)


@dataclass(frozen=True)
class Trajectory:
    """What an implementation tells and has where a case is `resumed` and where it ends; what it predicts there."""

    stats: TrainStats
    cut: Mapping[str, np.ndarray]
    end: Mapping[str, np.ndarray]
    predictions: list[Any]


class Builds:
    """The implementations of a case, built once for all tests."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.made, self.again, self.trajectory = cache(self._made), cache(self._again), cache(self._trajectory)

    def _made(self, framework: str, precision: str, seed: int):
        """An implementation and the state that it started with."""
        made = build(self.case, framework, precision, seed)
        return made, made.state_dict()

    def fresh(self, framework: str, precision: str = "fp32", seed: int = 3):
        """An implementation in the state that it started with."""
        implementation, initial = self.made(framework, precision, seed)
        implementation.load_state_dict(initial)
        return implementation

    def initial(self, framework: str) -> Mapping[str, np.ndarray]:
        """The state that an implementation started with."""
        return self.made(framework, "fp32", 3)[1]

    def _trajectory(self, framework: str) -> Trajectory:
        """From the state that it started with; it predicts on the way, which changes nothing."""
        assert self.case.resumed
        cut, end = self.case.resumed
        data = evaluation_data(self.case.data())
        implementation = self.fresh(framework)
        stats = implementation.train_until(cut)
        implementation.predict(data)
        state = implementation.state_dict()
        assert implementation.train_until(end).samples == self.whole_steps(end)
        return Trajectory(stats, state, implementation.state_dict(), implementation.predict(data))

    def whole_steps(self, samples: int) -> int:
        """The samples of the steps that so many take."""
        size = {**self.case.benchmark.hyperparameters, **self.case.changes}["global_batch_size"]
        return -(-samples // size) * size

    def _again(self, framework: str):
        """Another implementation of the same seed, and what its building read of the training data.

        That data is blank until it is built: what is computed of it before shows in how it trains.
        """
        data = self.case.data()
        blank = {name: np.zeros_like(array) for name, array in data.items() if name.startswith("train_")}
        watched = {name: array.view(Watched) for name, array in blank.items()}
        Watched.reads.clear()
        made = build(self.case, framework, data=data | watched)
        reads = list(Watched.reads)
        assert_same(self.initial(framework), made.state_dict())
        for name, array in blank.items():
            np.copyto(array, data[name])
        return made, reads
