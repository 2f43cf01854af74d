"""Compare an operator with itself in float64: how far its values are off, and whether they are always the same."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np

MANTISSA = {"float32": 23, "bfloat16": 7, "float16": 10}  # bits, of the types that are judged
LEAST_EXPONENT = {"float32": -126, "bfloat16": -126, "float16": -14}  # of a normal number
REPEATS = 3
SEED = 0  # of what gradients are taken against
RANDOM, WHOLE, UNDEFINED, REFUSED = "random", "whole numbers", "values not set yet", "has no float64"


@dataclass(frozen=True)
class Output:
    """A tensor that an operator made, as [N] float64: `made` in numbers of type `kind`, and `exact` in float64."""

    made: np.ndarray
    exact: np.ndarray
    kind: str


@dataclass(frozen=True)
class Errors:
    """How far values are off: the worst over all tensors that an operator made.

    `l2` is the error's Euclidean norm over that of the exact values, `linf` the largest error over the largest exact
    value. `ulp` and `ulp_99` are the median and 99th percentile of the error in units in the last place of the exact
    value. `lost` counts the values of all tensors that are finite in only one of the two; the others leave them out.
    """

    l2: float
    linf: float
    ulp: float
    ulp_99: float
    lost: int


@dataclass(frozen=True)
class Judged:
    """An operator as judged in one call of a step; `why` says why it was not judged, None if it was.

    `gradient` is None if no gradient went through it. `repeats` and `threads` say whether its values were the same to
    the last bit in REPEATS calls, and on another number of threads; None if that cannot be tried.
    """

    operator: str
    shapes: str
    why: str | None = None
    kind: str = ""
    forward: Errors | None = None
    gradient: Errors | None = None
    repeats: bool | None = None
    threads: bool | None = None


def unjudged(kinds: Set[str]) -> str | None:
    """Why an operator is not judged that made floating-point or complex numbers of these types; None if it is."""
    if not kinds:
        return WHOLE
    others = sorted(kinds - MANTISSA.keys())
    return f"numbers of {' and '.join(others)}" if others else None


def errors(tensors: Sequence[Output]) -> Errors | None:
    """The worst of each error over `tensors`, and the sum of what they lost; None if there are none."""
    if not tensors:
        return None
    found = [_errors(each) for each in tensors]
    return Errors(
        l2=max(each.l2 for each in found),
        linf=max(each.linf for each in found),
        ulp=max(each.ulp for each in found),
        ulp_99=max(each.ulp_99 for each in found),
        lost=sum(each.lost for each in found),
    )


def _errors(values: Output) -> Errors:
    finite = np.isfinite(values.made)
    lost = int((finite != np.isfinite(values.exact)).sum())
    finite &= np.isfinite(values.exact)
    exact = values.exact[finite]
    off = np.abs(values.made[finite] - exact)
    if not exact.size:
        return Errors(0.0, 0.0, 0.0, 0.0, lost)
    least = LEAST_EXPONENT[values.kind]
    exponents = np.where(exact == 0, least, np.maximum(np.frexp(exact)[1] - 1, least))
    units = off / np.exp2(exponents - MANTISSA[values.kind])
    norm, largest = float(np.linalg.norm(exact)), float(np.abs(exact).max())
    return Errors(
        l2=float(np.linalg.norm(off)) / (norm or 1.0),
        linf=float(off.max()) / (largest or 1.0),
        ulp=float(np.median(units)),
        ulp_99=float(np.percentile(units, 99)),
        lost=lost,
    )


def unlike(threads: int) -> int:
    """A number of threads other than `threads`: two instead of one, else one."""
    return 1 if threads > 1 else 2
