"""Checks each call of an implementation against its contract: its author's mistake becomes one line that quotes it.

Each call costs a few type checks; no array is copied.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np

from suite import config
from suite.config.models import Benchmark
from suite.errors import BrokenContract, UserError, shown
from suite.harness.implementation import Device, Implementation, ImplementationModule, TrainStats
from suite.record.states import LONGEST_NAME
from suite.store.authors import guarded, place
from suite.store.task import described, is_plain

_LIMIT = 2**63  # whole numbers below it fit every reader of evidence


class Refused(UserError):
    """The system refused something, such as a file, to an implementation's code; the message says what, and where."""


class Given(dict[str, np.ndarray]):
    """The arrays of `data` that an implementation's function `to` is given; asking for others is a BrokenContract."""

    def __init__(self, data: Mapping[str, np.ndarray], names: Iterable[str], to: Callable[..., Any]) -> None:
        super().__init__({name: data[name] for name in names})
        self.withheld, self.to = data.keys() - self.keys(), to

    def __missing__(self, name: str) -> np.ndarray:
        if name not in self.withheld:
            raise KeyError(name)
        raise BrokenContract(f"{name!r} is asked for, which {self.to.__name__} is not given", self.to)


def training_data(data: Mapping[str, np.ndarray]) -> Given:
    """The arrays that `build` is given: those of the training split and those of no split."""
    return Given(data, [name for name in data if not name.startswith(("test_", "answer_"))], ImplementationModule.build)


def evaluation_data(data: Mapping[str, np.ndarray]) -> Given:
    """The arrays that `predict` is given: those of the evaluation split, without the answers."""
    return Given(data, [name for name in data if name.startswith("test_")], Implementation.predict)


class Checked:
    """Wraps the implementation `inner` of the module `name`; raises BrokenContract if a result is not as promised.

    `step` is how many samples each step counts, None if steps differ.
    """

    def __init__(self, inner: Any, name: str, step: int | None) -> None:
        for contract in (
            Implementation.train_until,
            Implementation.predict,
            Implementation.state_dict,
            Implementation.load_state_dict,
        ):
            if not callable(getattr(inner, contract.__name__, None)):
                raise BrokenContract(f"what build of {name} made has no {contract.__name__}", contract)
        self.inner, self.name, self.step = inner, name, step
        self.seen: int | None = 0  # None after a state was loaded, whose samples only the author's code knows

    def train_until(self, samples: int) -> TrainStats:
        """Call the inner `train_until`, which must reach `samples`."""
        with _called(Implementation.train_until, self.name):
            stats = self.inner.train_until(samples)
        if not isinstance(stats, TrainStats):
            raise BrokenContract(self._returned("train_until", stats), TrainStats)
        if type(stats.samples) is not int or stats.samples >= _LIMIT:
            raise BrokenContract(self._returned("train_until", stats.samples, " as samples"), TrainStats)
        if not isinstance(stats.loss, int | float | None) or (type(stats.loss) is int and abs(stats.loss) >= _LIMIT):
            raise BrokenContract(self._returned("train_until", stats.loss, " as loss"), TrainStats)
        found = f"train_until({samples}) of {self.name} stopped at {stats.samples} samples"
        if stats.samples < samples:
            raise BrokenContract(found, Implementation.train_until)
        if self.step:
            if stats.samples % self.step:
                raise BrokenContract(f"{found}, in steps of {self.step}", TrainStats)
            one_step = self.seen is None or stats.samples <= self.seen + self.step
            if stats.samples >= samples + self.step and not one_step:
                raise BrokenContract(f"{found}, in steps of {self.step}", Implementation.train_until)
        self.seen = stats.samples
        return stats

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """Call the inner `predict` with the `evaluation_data` of all arrays `data`."""
        with _called(Implementation.predict, self.name):
            predictions = self.inner.predict(evaluation_data(data))
        if not isinstance(predictions, Sequence) or isinstance(predictions, str):
            raise BrokenContract(self._returned("predict", predictions), Implementation.predict)
        return predictions

    def state_dict(self) -> dict[str, np.ndarray]:
        """Call the inner `state_dict`, whose names and arrays must be ones that a checkpoint can hold."""
        with _called(Implementation.state_dict, self.name):
            state = self.inner.state_dict()
        if not isinstance(state, dict):
            raise BrokenContract(self._returned("state_dict", state), Implementation.state_dict)
        for name, array in state.items():
            if not _is_name(name):
                raise BrokenContract(f"state_dict of {self.name} has the name {name!r:.60}", Implementation.state_dict)
            if not is_plain(array):
                found = f"{name!r} in the state_dict of {self.name} is {described(array)}"
                raise BrokenContract(found, Implementation.state_dict)
        return state

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Call the inner `load_state_dict`."""
        with _called(Implementation.load_state_dict, self.name):
            self.inner.load_state_dict(state)
        self.seen = None

    def _returned(self, function: str, value: object, part: str = "") -> str:
        return f"{function} of {self.name} returned {described(value)}{part}"


def build(
    module: ImplementationModule, benchmark: Benchmark, data: Mapping[str, np.ndarray], seed: int, device: Device
) -> Checked:
    """Build the module's implementation of `benchmark` from the `training_data` of `data` and a copy of the
    hyperparameters, and wrap it in `Checked`.

    Raises UserError if it cannot be built with hyperparameters other than the benchmark's own. With several workers a
    RuntimeError is passed on, since torch.distributed raises it for failed connections too.
    """
    name = getattr(module, "__name__", type(module).__name__)
    try:
        with _called(ImplementationModule.build, name):
            made = module.build(deepcopy(benchmark.hyperparameters), training_data(data), seed, device)
        return Checked(made, name, benchmark.hyperparameters.get("global_batch_size"))
    except (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError) as error:
        usual = config.benchmark(benchmark.task, benchmark.scale).hyperparameters
        given = benchmark.hyperparameters.items()
        changed = [f"hyperparameters.{key}={value}" for key, value in given if usual.get(key) != value]
        if not changed or (device.world_size > 1 and isinstance(error, RuntimeError)):
            raise
        why = shown(f"{type(error).__name__}: {error}")
        raise UserError(f"{benchmark.name} cannot be built with {', '.join(changed)}: {why}") from error


@contextmanager
def _called(function: Callable[..., Any], name: str) -> Iterator[None]:
    """`guarded`, which also tells the OSErrors of the author's code from the suite's: it raises Refused."""
    try:
        with guarded(function, name):
            yield
    except OSError as error:
        found = f"{function.__name__} of {name} raised {type(error).__name__} at {place(error)}: {error}"
        raise Refused(found) from error


def check_json(predictions: Sequence[Any]) -> None:
    """Raise BrokenContract that names the first prediction that JSON cannot hold, or gives back as another."""
    for index, prediction in enumerate(predictions):
        found = f"prediction {index} (from 0) that predict returned is"
        try:
            back = json.loads(json.dumps(prediction))
        except (TypeError, ValueError, RecursionError) as error:
            raise BrokenContract(f"{found} {described(prediction)}: {error}", Implementation.predict) from None
        if not alike(prediction, back):
            changed = f"{prediction!r:.60}, and {back!r:.60} when read back from JSON"
            raise BrokenContract(f"{found} {changed}", Implementation.predict)


def alike(given: Any, back: Any) -> bool:
    """Whether both are equal, with the same types at every depth: JSON changes tuples and keys that are numbers."""
    if type(given) is not type(back):
        return False
    if isinstance(given, dict):
        return given.keys() == back.keys() and all(alike(given[key], back[key]) for key in given)
    if isinstance(given, list):
        return len(given) == len(back) and all(map(alike, given, back))
    return bool(given == back or given != given)


def _is_name(name: object) -> bool:
    """Whether a checkpoint can store this name of a state's array and return it unchanged."""
    return isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isprintable() and not name.endswith(".npy")
