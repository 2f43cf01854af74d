"""Promises of one implementation in training, tried in fp32 on the CPU with a handful of steps.

Builds it four times: twice alike, once with another seed, once with training arrays that hold only zeros and tell who
reads them. A build that had looked at the training data would start from another state, or be told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from mlperf_logging.mllog.constants import GLOBAL_BATCH_SIZE

from suite.check.ledger import Broken, Ledger
from suite.check.untouched import untouched
from suite.config.models import Benchmark
from suite.harness import contract
from suite.harness.contract import Checked
from suite.harness.implementation import Device, Implementation, ImplementationModule

SEED, OTHER_SEED = 1, 2
STEPS = 3
DEVICE = Device("cpu", "fp32")

State = dict[str, np.ndarray]


@dataclass
class Trained:
    """An implementation after STEPS steps: its states at the start and at the end, its samples at the end.

    `without_dropout` builds one that draws none: each framework has random numbers of its own.
    """

    made: Checked
    initial: State
    last: State
    samples: int
    without_dropout: Callable[[], Checked]


def differing(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> list[str]:
    """The names of what is not the same, bit by bit, in two states."""
    same = {
        name
        for name in one.keys() & other.keys()
        if one[name].dtype == other[name].dtype
        and one[name].shape == other[name].shape
        and one[name].tobytes() == other[name].tobytes()
    }
    return sorted((one.keys() | other.keys()) - same)


def copied(state: Mapping[str, np.ndarray]) -> State:
    """The state as it is now, whatever the implementation does to its arrays later."""
    return {name: array.copy() for name, array in state.items()}


def dropout_off(hyperparameters: Mapping[str, object]) -> dict[str, object]:
    """The rates of dropout among `hyperparameters`, at 0; empty where nothing is dropped."""
    return {name: 0.0 for name, value in hyperparameters.items() if name.endswith("dropout") and value}


def training(
    ledger: Ledger, benchmark: Benchmark, module: ImplementationModule, data: Mapping[str, np.ndarray]
) -> Trained | None:
    """Try the promises of the module's implementation; None if it cannot be built or trained."""
    made: list[Checked] = []
    initial: State = {}
    counts: list[int] = []
    middle: State = {}
    end: State = {}

    def build(seed: int = SEED, given: Mapping[str, np.ndarray] = data) -> Checked:
        return contract.build(module, benchmark, given, seed, DEVICE)

    def without_dropout() -> Checked:
        off = dropout_off(benchmark.hyperparameters)
        if not off:
            return made[0]
        plain = benchmark.model_copy(update={"hyperparameters": {**benchmark.hyperparameters, **off}})
        return contract.build(module, plain, data, SEED, DEVICE)

    def starts() -> None:
        made.append(build())
        initial.update(copied(made[0].state_dict()))
        if not initial:
            raise Broken("state_dict returned no array")

    def unread() -> None:
        with untouched(data) as (given, read):
            other = build(given=given).state_dict()
            if names := read():
                raise Broken(f"build reads {names[0]!r}")
        if strays := differing(initial, other):
            raise Broken(f"with zeros for training data, build starts from another {strays[0]!r}")

    def counted() -> None:
        batch = benchmark.hyperparameters.get(GLOBAL_BATCH_SIZE)
        counts.append(made[0].train_until(1).samples)
        middle.update(copied(made[0].state_dict()))
        if not differing(initial, middle):
            raise Broken("train_until(1) left the state as it was")
        counts.append(made[0].train_until(counts[0]).samples)
        counts.append(made[0].train_until(counts[1] + 1).samples)
        end.update(copied(made[0].state_dict()))
        if not counts[0] < counts[1] < counts[2]:
            raise Broken(f"samples {counts} after train_until(1), ({counts[0]}) and ({counts[1] + 1})")
        if batch and counts != [batch * (step + 1) for step in range(STEPS)]:
            raise Broken(f"samples {counts} after one, two and three steps of {GLOBAL_BATCH_SIZE} {batch}")

    def one_trajectory() -> None:
        made.append(build())
        made[1].train_until(counts[-1])
        if strays := differing(end, made[1].state_dict()):
            raise Broken(f"{strays[0]!r} differs after {counts[-1]} samples in one call and in {STEPS}, of one seed")

    def another() -> None:
        other = build(OTHER_SEED)
        other.train_until(counts[-1])
        if not differing(end, other.state_dict()):
            raise Broken(f"seeds {SEED} and {OTHER_SEED} end in the same state after {counts[-1]} samples")

    def round_trip() -> None:
        second = made[-1]
        second.load_state_dict(middle)
        if strays := differing(middle, second.state_dict()):
            raise Broken(f"{strays[0]!r} is not what was loaded")

    def goes_on() -> None:
        for number, each in enumerate((made[-1], made[0]), 1):
            each.load_state_dict(copied(middle))
            each.train_until(counts[-1])
            if strays := differing(end, each.state_dict()):
                whose = "another implementation" if number == 1 else "the same implementation"
                raise Broken(f"{strays[0]!r} differs after {whose} has loaded a state and gone on from it")

    def begins_anew() -> None:
        made[0].load_state_dict(copied(initial))
        made[0].train_until(counts[-1])
        if strays := differing(end, made[0].state_dict()):
            raise Broken(f"{strays[0]!r} differs when a trained implementation begins anew from its initial state")

    if not ledger.hold("build makes an implementation with a state of arrays", ImplementationModule.build, starts):
        return None
    ledger.hold("build reads no training data", ImplementationModule.build, unread)
    if not ledger.hold("train_until counts whole steps, at least one", Implementation.train_until, counted):
        return None
    ledger.hold("one seed gives one trajectory, however it is cut", ImplementationModule.build, one_trajectory)
    ledger.hold("another seed gives another trajectory", ImplementationModule.build, another)
    ledger.hold("a second implementation takes over the state, bit by bit", Implementation.load_state_dict, round_trip)
    ledger.hold("from a state, training goes on as if never stopped", Implementation.state_dict, goes_on)
    ledger.hold("from its initial state, training begins anew", Implementation.load_state_dict, begins_anew)
    return Trained(made[0], initial, end, counts[-1], without_dropout)
