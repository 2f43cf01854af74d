"""How far apart two implementations get when they step from one state, array by array."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from suite.check.equivalence.states import is_float
from suite.record.states import State

Ways = dict[str, np.ndarray]  # by array: what training added to it, float64
KNOWN = 1e-7  # of an array's norm: how precisely its numbers are known


@dataclass(frozen=True)
class Worst:
    """The array whose `distance` is the largest relative to its `bound`, of as many as were `judged`.

    Those that rounding alone sends anywhere are not.
    """

    name: str
    distance: float
    bound: float
    judged: int


def ways(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> Ways:
    """What was added to each floating-point array."""
    return {
        name: after[name].astype(np.float64) - array.astype(np.float64)
        for name, array in before.items()
        if is_float(array)
    }


def distances(before: State, ours: Ways, theirs: Ways) -> dict[str, float]:
    """|theirs - ours| / |ours| of each array; 0 for differences within `KNOWN`, the precision of the arrays."""
    made = {}
    for name, way in ours.items():
        known = KNOWN * float(np.linalg.norm(before[name].astype(np.float64)))
        length = float(np.linalg.norm(way)) + known
        apart = float(np.linalg.norm(theirs[name] - way))
        made[name] = 0.0 if apart <= known else apart / length if math.isfinite(apart) and length else math.inf
    return made


def worst(
    found: Mapping[str, float], spread: Mapping[str, float], distance: float, slack: float, hopeless: float
) -> Worst | None:
    """The worst of the distances `found`, bounded by each array's `spread` under a nudge; None if none is judged."""
    bounds = {name: max(distance, slack * spread[name]) for name in found}
    judged = [name for name, bound in bounds.items() if bound <= hopeless]
    if not judged:
        return None
    name = max(judged, key=lambda each: found[each] / bounds[each])
    return Worst(name, found[name], bounds[name], len(judged))
