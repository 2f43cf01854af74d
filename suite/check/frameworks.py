"""Promises of two frameworks beside each other: one recipe, whichever runs it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from suite.check.ledger import Broken, Ledger
from suite.check.training import State, Trained, copied, differing
from suite.config.models import Benchmark
from suite.harness.implementation import Implementation, ImplementationModule
from suite.store.task import Task, score

STATE_TOLERANCE = 1e-3  # between the states after a step, absolute or relative to the largest value of an array
SCORE_TOLERANCE = 1e-2  # between the metrics of the same weights, absolute or relative: a near tie falls either way


def together(
    ledger: Ledger,
    benchmark: Benchmark,
    task: Task,
    pair: Sequence[tuple[str, Trained, Mapping[str, float]]],
    data: Mapping[str, np.ndarray],
) -> None:
    """Try the promises of two implementations of one benchmark, each with its framework and its metrics as it is."""
    (one, ours, expected), (other, theirs, _) = pair

    def names() -> None:
        a, b = ({name: (x.shape, x.dtype) for name, x in each.initial.items()} for each in (ours, theirs))
        if strays := sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name)):
            name = strays[0]
            raise Broken(f"{name!r} is {_form(a.get(name))} in {one} and {_form(b.get(name))} in {other}")

    def start() -> None:
        if strays := differing(ours.initial, theirs.initial):
            raise Broken(f"seed 1 starts from another {strays[0]!r} in {one} than in {other}")

    def predictions() -> None:
        theirs.made.load_state_dict(copied(ours.last))
        found = score(benchmark, task, theirs.made.predict(data), data)
        for name in expected:
            values = expected[name], found.get(name, math.nan)
            unknown_to_both = name in found and all(map(math.isnan, values))
            if not unknown_to_both and not math.isclose(*values, rel_tol=SCORE_TOLERANCE, abs_tol=SCORE_TOLERANCE):
                both = f"{name} {values[0]:.6g} in {one} and {values[1]:.6g} in {other}"
                raise Broken(f"{both}, from the same state; at most {SCORE_TOLERANCE:g} apart are allowed")

    def step() -> None:
        ended: list[State] = []
        for each in (ours, theirs):
            made = each.without_dropout()
            made.load_state_dict(copied(ours.last))
            made.train_until(ours.samples + 1)
            ended.append(made.state_dict())
        for name, a in ended[0].items():
            apart = _apart(a, ended[1][name])
            if not apart <= STATE_TOLERANCE:
                found = f"a step from the same state takes {name!r} {apart:.3g} apart in {one} and {other}"
                raise Broken(f"{found}; at most {STATE_TOLERANCE:g} are allowed")

    loads = Implementation.load_state_dict
    if not ledger.hold("both have the same names, shapes and dtypes in their states", Implementation.state_dict, names):
        for promise in ("both start from the same parameters", "both score the same", "both take the same step"):
            ledger.skip(promise, "their states have different forms")
        return
    ledger.hold("both start from the same parameters", ImplementationModule.build, start)
    ledger.hold("both score the same with the same weights", loads, predictions)
    ledger.hold("both take the same step from the same weights", loads, step)


def _form(form: Any) -> str:
    return f"{form[1]} {list(form[0])}" if form else "missing"


def _apart(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, relative where the values are above 1; infinite between different texts."""
    if a.dtype.kind not in "biufc":
        return 0.0 if np.array_equal(a, b) else math.inf
    if not a.size:
        return 0.0
    values = [x.astype(np.complex128 if a.dtype.kind == "c" else np.float64) for x in (a, b)]
    return float(np.abs(values[0] - values[1]).max() / max(1.0, np.abs(values[0]).max()))
