"""States that were made from another: rounded otherwise, shaken, with counters of another step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from suite.check.training import State

SHAKE = 0.3  # the deviation of the logarithm of what each number is multiplied by
AMPLIFIED = {"weight_decay": 100.0, "epsilon": 1e5}  # by the end of a hyperparameter's name


def is_float(array: np.ndarray) -> bool:
    """Whether an array holds floating-point numbers, and any."""
    return array.dtype.kind == "f" and array.size > 0


def nudged(state: Mapping[str, np.ndarray], by: float, number: int = 0) -> State:
    """The state with every floating-point number off by a relative error of deviation `by`, the draw of a `number`.

    A vector of zeros, as biases begin, is off by an absolute error of that deviation: what it is added to is about 1.
    One of an optimizer, `PREFIX/NAME` beside an array NAME, stays as it is: no step has rounded it yet.
    """

    def off(draw: np.random.Generator, name: str, array: np.ndarray) -> np.ndarray:
        moves = array.ndim == 1 and not array.any() and name.partition("/")[2] not in state
        return array + by * draw.standard_normal(array.shape) * (1 if moves else array)

    return _altered(state, (1, number), off)


def shaken(state: Mapping[str, np.ndarray]) -> State:
    """The state with every floating-point number multiplied by one of its own, drawn around 1 and above 0."""
    return _altered(state, (2,), lambda draw, _, array: array * np.exp(SHAKE * draw.standard_normal(array.shape)))


def at_later_steps(state: Mapping[str, np.ndarray], following: Mapping[str, np.ndarray], count: int) -> list[State]:
    """The floating-point numbers of `state` at `count` steps, from its own on, each of which draws other samples.

    `following` is the state a step later, by which the counters are known.
    """

    def later(name: str, array: np.ndarray, steps: int) -> np.ndarray:
        counts = array.dtype.kind in "iu"
        return np.asarray(array + steps * (following[name] - array)).astype(array.dtype) if counts else array.copy()

    return [{name: later(name, array, steps) for name, array in state.items()} for steps in range(count)]


def amplified(hyperparameters: Mapping[str, object]) -> dict[str, object]:
    """Those of `hyperparameters` that a step hardly shows, many times as large; empty where there is none."""
    made: dict[str, object] = {}
    for name, value in hyperparameters.items():
        for end, times in AMPLIFIED.items():
            if name.endswith(end) and isinstance(value, int | float) and value:
                made[name] = value * times
    return made


def _altered(
    state: Mapping[str, np.ndarray],
    seed: Sequence[int],
    alter: Callable[[np.random.Generator, str, np.ndarray], np.ndarray],
) -> State:
    draw = np.random.default_rng(seed)
    return {
        name: alter(draw, name, array).astype(array.dtype) if is_float(array) else array.copy()
        for name, array in sorted(state.items())
    }
