"""Holds an implementation to the contract at the seam: a mistake of its author is one line that names the contract.

Each call costs a few type checks; no value is copied.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from suite.config.models import Benchmark
from suite.errors import BrokenContract
from suite.harness.implementation import Device, Implementation, ImplementationModule, TrainStats
from suite.record.states import LONGEST_NAME
from suite.store.task import described, is_plain


class Checked:
    """The implementation `inner` of the module `name`; raises BrokenContract where an answer is not as promised."""

    def __init__(self, inner: Any, name: str) -> None:
        for contract in (
            Implementation.train_until,
            Implementation.predict,
            Implementation.state_dict,
            Implementation.load_state_dict,
        ):
            if not callable(getattr(inner, contract.__name__, None)):
                raise BrokenContract(f"what build of {name} made has no {contract.__name__}", contract)
        self.inner, self.name = inner, name

    def train_until(self, samples: int) -> TrainStats:
        """The inner one's `train_until`, which must have reached `samples`."""
        stats = self.inner.train_until(samples)
        if not isinstance(stats, TrainStats):
            raise BrokenContract(self._returned("train_until", stats), TrainStats)
        if type(stats.samples) is not int:
            raise BrokenContract(self._returned("train_until", stats.samples, " as samples"), TrainStats)
        if stats.loss is not None and not isinstance(stats.loss, int | float):
            raise BrokenContract(self._returned("train_until", stats.loss, " as loss"), TrainStats)
        if stats.samples < samples:
            found = f"train_until({samples}) of {self.name} stopped at {stats.samples} samples"
            raise BrokenContract(found, Implementation.train_until)
        return stats

    def predict(self) -> Sequence[Any]:
        """The inner one's `predict`."""
        predictions = self.inner.predict()
        if not isinstance(predictions, Sequence) or isinstance(predictions, str):
            raise BrokenContract(self._returned("predict", predictions), Implementation.predict)
        return predictions

    def state_dict(self) -> dict[str, np.ndarray]:
        """The inner one's `state_dict`, whose names and arrays a checkpoint can hold."""
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
        """The inner one's `load_state_dict`."""
        self.inner.load_state_dict(state)

    def _returned(self, function: str, value: object, part: str = "") -> str:
        return f"{function} of {self.name} returned {described(value)}{part}"


def build(
    module: ImplementationModule, benchmark: Benchmark, data: Mapping[str, np.ndarray], seed: int, device: Device
) -> Checked:
    """The module's implementation of `benchmark`, held to the contract. It is given no `answer_*` array of `data`."""
    visible = {name: array for name, array in data.items() if not name.startswith("answer_")}
    name = getattr(module, "__name__", type(module).__name__)
    return Checked(module.build(benchmark.hyperparameters, visible, seed, device), name)


def check_json(predictions: Sequence[Any]) -> None:
    """Raise BrokenContract that names the first prediction that JSON cannot hold, and why."""
    for index, prediction in enumerate(predictions):
        try:
            json.dumps(prediction)
        except (TypeError, ValueError, RecursionError) as error:
            found = f"prediction {index} (from 0) that predict returned is {described(prediction)}: {error}"
            raise BrokenContract(found, Implementation.predict) from None


def _is_name(name: object) -> bool:
    """Whether a checkpoint gives a state's name back as it was."""
    return isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isprintable() and not name.endswith(".npy")
