"""Promises of two frameworks together: both follow the same recipe."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from suite.check.ledger import Broken, Ledger
from suite.check.training import Trained, copied, differing, form_of
from suite.config.models import Benchmark
from suite.harness.implementation import Implementation, ImplementationModule
from suite.record.states import State
from suite.store.task import Task, score

STATE_TOLERANCE = 1e-3  # between the states after a step, absolute or relative to the largest value of an array
SCORE_TOLERANCE = 1e-2  # between the metrics of the same weights, absolute or relative: a near tie falls either way


@dataclass(frozen=True)
class Side:
    """A framework's implementation after training, and the metrics that it scores with its own weights."""

    framework: str
    trained: Trained
    metrics: Mapping[str, float]


def together(
    ledger: Ledger, benchmark: Benchmark, task: Task, one: Side, other: Side, data: Mapping[str, np.ndarray]
) -> None:
    """Try the promises of two implementations of one benchmark."""
    build, state, load = ImplementationModule.build, Implementation.state_dict, Implementation.load_state_dict
    same = "both have the same names, shapes and dtypes in their states"
    if not ledger.hold(same, state, lambda: _same_form(one, other)):
        for promise in ("both start from the same parameters", "both score the same", "both take the same step"):
            ledger.skip(promise, "their states have different forms")
        return
    scores = partial(_same_scores, benchmark, task, one, other, data)
    ledger.hold("both start from the same parameters", build, lambda: _same_start(one, other))
    ledger.hold("both score the same with the same weights", load, scores)
    ledger.hold("both take the same step from the same weights", load, lambda: _same_step(one, other))


def _same_form(one: Side, other: Side) -> None:
    a, b = one.trained.initial, other.trained.initial
    if strays := sorted(name for name in a.keys() | b.keys() if form_of(a.get(name)) != form_of(b.get(name))):
        name = strays[0]
        forms = f"{form_of(a.get(name))} in {one.framework} and {form_of(b.get(name))} in {other.framework}"
        raise Broken(f"{name!r} is {forms}")


def _same_start(one: Side, other: Side) -> None:
    if strays := differing(one.trained.initial, other.trained.initial):
        raise Broken(f"seed 1 starts from another {strays[0]!r} in {one.framework} than in {other.framework}")


def _same_scores(benchmark: Benchmark, task: Task, one: Side, other: Side, data: Mapping[str, np.ndarray]) -> None:
    made = other.trained.made
    made.load_state_dict(copied(one.trained.last))
    found = score(benchmark, task, made.predict(data), data)
    for name, expected in one.metrics.items():
        values = expected, found.get(name, math.nan)
        unknown_to_both = name in found and all(map(math.isnan, values))
        if not unknown_to_both and not math.isclose(*values, rel_tol=SCORE_TOLERANCE, abs_tol=SCORE_TOLERANCE):
            both = f"{name} {values[0]:.6g} in {one.framework} and {values[1]:.6g} in {other.framework}"
            raise Broken(f"{both}, from the same state; at most {SCORE_TOLERANCE:g} apart are allowed")


def _same_step(one: Side, other: Side) -> None:
    ours, theirs = (_stepped(each.trained, one.trained) for each in (one, other))
    for name, array in ours.items():
        apart = _apart(array, theirs[name])
        if not apart <= STATE_TOLERANCE:
            both = f"{apart:.3g} apart in {one.framework} and {other.framework}"
            raise Broken(f"a step from the same state takes {name!r} {both}; at most {STATE_TOLERANCE:g} are allowed")


def _stepped(trained: Trained, begun: Trained) -> State:
    """The state of `trained` one step after the last state of `begun`, without dropout."""
    made = trained.without_dropout()
    made.load_state_dict(copied(begun.last))
    made.train_until(begun.samples + 1)
    return made.state_dict()


def _apart(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, relative to the largest value of `a` if above 1; infinite between different texts."""
    if a.dtype.kind not in "biufc":
        return 0.0 if np.array_equal(a, b) else math.inf
    if not a.size:
        return 0.0
    values = [x.astype(np.complex128 if a.dtype.kind == "c" else np.float64) for x in (a, b)]
    return float(np.abs(values[0] - values[1]).max() / max(1.0, np.abs(values[0]).max()))
