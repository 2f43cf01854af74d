"""The implementations of a case, built once for all tests, and what their building read."""

from collections.abc import Mapping
from functools import cache

import numpy as np

from tests.reference_impls.cases import Case, build


def assert_same(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> None:
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert array.dtype == theirs[name].dtype, name
        assert np.array_equal(array, theirs[name]), name


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


class Builds:
    """The implementations of a case, built once for all tests."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.made, self.again = cache(self._made), cache(self._again)

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
