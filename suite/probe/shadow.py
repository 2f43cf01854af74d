"""How far steps drift from the same steps in float64, taken by a shadow: each operator runs again on float64 values.

Each floating-point tensor has a shadow in float64, which the same operators make from the shadows of their inputs, as
NSan does for single instructions (Courbet 2021, https://arxiv.org/abs/2102.12782). Whole numbers, random draws and
branches are those of the step itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

STEPS = (1, 10)  # after which the distance is measured


Arrays = Mapping[str, np.ndarray]  # parameters, float64, by their names


@dataclass(frozen=True)
class Distance:
    """The distance of all parameters from their shadows after so many steps, relative to how far these moved (L2).

    None if it is not finite, or if the shadows did not move. `refused` are the operators that have no float64.
    """

    after: Mapping[int, float | None]
    refused: tuple[str, ...]


def distances(
    step: Callable[[], object], found: Callable[[], Arrays], exact: Callable[[], Arrays]
) -> dict[int, float | None]:
    """Take steps; return, after each of STEPS, the distance of the parameters `found` from their shadows `exact`."""
    initial, after = found(), dict[int, float | None]()
    for number in range(1, max(STEPS) + 1):
        step()
        if number in STEPS:
            after[number] = _distance(initial, found(), exact())
    return after


def _distance(initial: Arrays, found: Arrays, exact: Arrays) -> float | None:
    off = sum(float(np.square(found[name] - array).sum()) for name, array in exact.items())
    came = sum(float(np.square(array - initial[name]).sum()) for name, array in exact.items())
    return (off / came) ** 0.5 if came and np.isfinite(off) else None
