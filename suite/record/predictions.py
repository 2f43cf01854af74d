"""Compare predictions of the same state, made by two implementations or on two machines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def differing(claimed: Sequence[Any], found: Sequence[Any], close: float = 0.05) -> float:
    """The share of predictions that differ by more than rounding explains; 1 if they are not equally many.

    Floats may be `close` apart, absolutely or relatively; all else must be equal.
    """
    if len(claimed) != len(found):
        return 1.0
    return sum(not _near(one, other, close) for one, other in zip(claimed, found, strict=True)) / max(len(claimed), 1)


def _near(one: Any, other: Any, close: float) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_near(a, b, close) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_near(one[name], other[name], close) for name in one)
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=close, abs_tol=close)
    return bool(one == other)
