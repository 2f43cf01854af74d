"""States derived from another state: nudged, shaken, or with the counters of later steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from suite.record.states import State

SHAKE = 0.3  # the standard deviation of the logarithm of each number's factor
AMPLIFIED = {"weight_decay": 100.0, "epsilon": 1e5}  # factors by the end of a hyperparameter's name


def is_float(array: np.ndarray) -> bool:
    """Whether an array is not empty and holds floating-point numbers."""
    return array.dtype.kind == "f" and array.size > 0


def nudged(state: Mapping[str, np.ndarray], by: float, number: int = 0) -> State:
    """The state with every floating-point number off by a random relative error of deviation `by`; `number` seeds it.

    A vector of zeros, such as a new bias, gets an absolute error of that deviation: it is added to values around 1.
    An optimizer's vector of zeros, `PREFIX/NAME` beside an array NAME, stays as it is: no step has rounded it yet.
    """

    def off(draw: np.random.Generator, name: str, array: np.ndarray) -> np.ndarray:
        moves = array.ndim == 1 and not array.any() and name.partition("/")[2] not in state
        return array + by * draw.standard_normal(array.shape) * (1 if moves else array)

    return _altered(state, (1, number), off)


def shaken(state: Mapping[str, np.ndarray]) -> State:
    """The state with every floating-point number multiplied by its own random number, drawn around 1 and above 0."""
    return _altered(state, (2,), lambda draw, _, array: array * np.exp(SHAKE * draw.standard_normal(array.shape)))


def at_later_steps(state: Mapping[str, np.ndarray], following: Mapping[str, np.ndarray], count: int) -> list[State]:
    """`count` copies of `state`, with the counters of successive steps from its own on, which draw other samples.

    `following` is the state one step later, which shows how the counters advance. Arrays stay as they are: those of
    whole numbers, such as the seeds of running episodes, are no counters.
    """

    def later(name: str, array: np.ndarray, steps: int) -> np.ndarray:
        counts = array.dtype.kind in "iu" and array.ndim == 0
        return np.asarray(array + steps * (following[name] - array)).astype(array.dtype) if counts else array.copy()

    return [{name: later(name, array, steps) for name, array in state.items()} for steps in range(count)]


def amplified(hyperparameters: Mapping[str, object]) -> dict[str, object]:
    """The `hyperparameters` that hardly show in a step, many times as large; empty if there are none."""
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
