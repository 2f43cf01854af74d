"""Round weights to few bits after training, to see how much of its quality a model keeps.

Post-training quantisation of weights alone (Jacob et al. 2018, arXiv:1712.05877; Dettmers et al. 2022,
arXiv:2208.07339): symmetric, to the nearest, with a scale for each index of the first axis. Products stay in fp32.
"""

from __future__ import annotations

import numpy as np

from suite.harness.implementation import ImplementationModule
from suite.record import states
from suite.record.states import State

BITS = {"int8": 8, "int4": 4}
TRAINED_IN = "fp32"


def bits(precision: str, module: ImplementationModule) -> int | None:
    """How many bits weights get in a precision; None if BITS lacks it, or code trains in it or has no PRECISIONS."""
    trains = getattr(module, "PRECISIONS", None)
    return None if trains is None or precision in trains else BITS.get(precision)


def rounded(state: State, bits: int) -> State:
    """The state with each weight of two or more axes rounded to the nearest of 2^bits - 1 values, which include 0.

    So are the averages of weights, if predictions come from those.
    """
    chosen = {name for name in states.weights(state) if state[name].ndim > 1}
    return {
        name: _rounded(array, bits) if name.removeprefix(states.AVERAGE) in chosen else array
        for name, array in state.items()
    }


def _rounded(array: np.ndarray, bits: int) -> np.ndarray:
    most = 2 ** (bits - 1) - 1
    scale = np.abs(array).max(axis=tuple(range(1, array.ndim)), keepdims=True) / most
    scale[scale == 0] = 1
    return np.asarray(np.rint(array / scale) * scale, array.dtype)
