"""Promises of one implementation in training, tried in fp32 on the CPU with a handful of steps.

The implementation is built four times: twice alike, once with another seed, and once with training arrays that hold
only zeros and show if they were read. A build that uses the training data starts from another state, or is seen to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from suite.check.ledger import Broken, Ledger, Skip
from suite.check.untouched import untouched
from suite.config.models import Benchmark
from suite.harness import contract
from suite.harness.contract import Checked
from suite.harness.implementation import Device, Implementation, ImplementationModule
from suite.record.states import State

SEED, OTHER_SEED = 1, 2
STEPS = 3
DEVICE = Device("cpu", "fp32")


@dataclass
class Trained:
    """An implementation after STEPS steps: its states at the start and at the end, its samples at the end.

    `without_dropout` gives one without dropout, which each framework draws from its own random numbers.
    """

    made: Checked
    initial: State
    last: State
    samples: int
    without_dropout: Callable[[], Checked]


def differing(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> list[str]:
    """The sorted names of the arrays that are not the same, bit for bit, in both states."""
    same = {
        name
        for name in one.keys() & other.keys()
        if one[name].dtype == other[name].dtype
        and one[name].shape == other[name].shape
        and one[name].tobytes() == other[name].tobytes()
    }
    return sorted((one.keys() | other.keys()) - same)


def copied(state: Mapping[str, np.ndarray]) -> State:
    """A copy of the state, which stays the same when the implementation changes its arrays."""
    return {name: array.copy() for name, array in state.items()}


def form_of(array: np.ndarray | None) -> str:
    """The dtype and the shape of an array of a state, `missing` for one that is not there."""
    return "missing" if array is None else f"{array.dtype} {list(array.shape)}"


def dropout_off(hyperparameters: Mapping[str, object]) -> dict[str, object]:
    """The dropout rates among `hyperparameters`, set to 0; empty if there is no dropout."""
    return {name: 0.0 for name, value in hyperparameters.items() if name.endswith("dropout") and value}


def training(
    ledger: Ledger, benchmark: Benchmark, module: ImplementationModule, data: Mapping[str, np.ndarray]
) -> Trained | None:
    """Try the promises of the module's implementation; None if it cannot be built or trained."""
    tried = _Tried(benchmark, module, data)
    build, state, load = ImplementationModule.build, Implementation.state_dict, Implementation.load_state_dict
    if not ledger.hold("build makes an implementation with a state of arrays", build, tried.starts):
        return None
    ledger.hold("build reads no training data", build, tried.reads_none)
    if not ledger.hold("train_until counts whole steps, at least one", Implementation.train_until, tried.counts_steps):
        return None
    ledger.hold("one seed gives one trajectory, however it is cut", build, tried.repeats)
    ledger.hold("another seed gives another trajectory", build, tried.departs)
    ledger.hold("a second implementation takes over the state, bit by bit", load, tried.takes_over)
    ledger.hold("from a state, training goes on as if never stopped", state, tried.goes_on)
    ledger.hold("from its initial state, training begins anew", load, tried.begins_anew)
    return Trained(tried.made, tried.initial, tried.end, tried.counts[-1], tried.without_dropout)


class _Tried:
    """One implementation and its states at the start, after a step and at the end; each promise is a method.

    `second` is another implementation of the same seed, None if it could not be built.
    """

    made: Checked
    initial: State
    middle: State
    end: State

    def __init__(self, benchmark: Benchmark, module: ImplementationModule, data: Mapping[str, np.ndarray]) -> None:
        self.benchmark, self.module, self.data = benchmark, module, data
        self.counts: list[int] = []
        self.second: Checked | None = None

    def _built(self, seed: int = SEED) -> Checked:
        return contract.build(self.module, self.benchmark, self.data, seed, DEVICE)

    def without_dropout(self) -> Checked:
        """The implementation itself if it has no dropout, else another one built without."""
        off = dropout_off(self.benchmark.hyperparameters)
        if not off:
            return self.made
        plain = self.benchmark.model_copy(update={"hyperparameters": {**self.benchmark.hyperparameters, **off}})
        return contract.build(self.module, plain, self.data, SEED, DEVICE)

    def starts(self) -> None:
        self.made = self._built()
        self.initial = copied(self.made.state_dict())
        if not self.initial:
            raise Broken("state_dict returned no array")

    def reads_none(self) -> None:
        with untouched(self.data) as (given, read):
            other = contract.build(self.module, self.benchmark, given, SEED, DEVICE).state_dict()
            if names := read():
                raise Broken(f"build reads {names[0]!r}")
        if strays := differing(self.initial, other):
            raise Broken(f"with zeros for training data, build starts from another {strays[0]!r}")

    def counts_steps(self) -> None:
        counts = self.counts
        counts.append(self.made.train_until(1).samples)
        self.middle = copied(self.made.state_dict())
        if not differing(self.initial, self.middle):
            raise Broken("train_until(1) left the state as it was")
        counts.append(self.made.train_until(counts[0]).samples)
        counts.append(self.made.train_until(counts[1] + 1).samples)
        self.end = copied(self.made.state_dict())
        if not counts[0] < counts[1] < counts[2]:
            raise Broken(f"samples {counts} after train_until(1), ({counts[0]}) and ({counts[1] + 1})")

    def repeats(self) -> None:
        last = self.counts[-1]
        self.second = self._built()
        self.second.train_until(last)
        if strays := differing(self.end, self.second.state_dict()):
            raise Broken(f"{strays[0]!r} differs after {last} samples in one call and in {STEPS}, of one seed")

    def departs(self) -> None:
        other = self._built(OTHER_SEED)
        other.train_until(self.counts[-1])
        if not differing(self.end, other.state_dict()):
            raise Broken(f"seeds {SEED} and {OTHER_SEED} end in the same state after {self.counts[-1]} samples")

    def takes_over(self) -> None:
        if not self.second:
            raise Skip("no second implementation was built")
        self.second.load_state_dict(self.middle)
        if strays := differing(self.middle, self.second.state_dict()):
            raise Broken(f"{strays[0]!r} is not what was loaded")

    def goes_on(self) -> None:
        for each, whose in ((self.second, "another implementation"), (self.made, "the same implementation")):
            if each and (strays := self._differing_from(each, self.middle)):
                raise Broken(f"{strays[0]!r} differs after {whose} has loaded a state and gone on from it")

    def begins_anew(self) -> None:
        if strays := self._differing_from(self.made, self.initial):
            raise Broken(f"{strays[0]!r} differs when a trained implementation begins anew from its initial state")

    def _differing_from(self, made: Checked, state: State) -> list[str]:
        """The names of the arrays that differ at the end when `made` trains on from `state`."""
        made.load_state_dict(copied(state))
        made.train_until(self.counts[-1])
        return differing(self.end, made.state_dict())
