"""The time of a model from the times of its bricks: one after the other, and along the longest path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from suite.bricks.record import Model, Time
from suite.probe.measuring import median
from suite.probe.record import Figure


@dataclass(frozen=True)
class Composed:
    """A model's time in milliseconds: `sequential`, the sum; `critical`, of its longest path; the bracket by caches.

    None where nothing could be timed. `missing` are steps whose bricks have no time, which are in no sum.
    """

    model: Model
    sequential: Figure
    critical: float | None
    hot: float | None
    cold: float | None
    steps: int
    unique: int
    missing: int


def compose(model: Model, times: Sequence[Time]) -> Composed:
    """The time of a model: its rounds are the sums of its bricks' rounds, and of these it is the median."""
    chosen = [times[each] for each in model.bricks]
    point = sums([each.us for each in chosen])
    return Composed(
        model=model,
        sequential=median([each / 1e3 for each in point], "ms"),
        critical=_critical(model, times),
        hot=_middle(sums([each.hot for each in chosen])),
        cold=_middle(sums([each.cold for each in chosen])),
        steps=len(chosen),
        unique=len(set(model.bricks)),
        missing=sum(not each.us for each in chosen),
    )


def sums(rounds: Sequence[Sequence[float]]) -> list[float]:
    """Of each round, over all that have any."""
    measured = [each for each in rounds if each]
    return [float(each) for each in np.sum(measured, axis=0)] if measured else []


def _critical(model: Model, times: Sequence[Time]) -> float | None:
    """Milliseconds of the longest path, by the median time of each brick."""
    if not any(times[each].us for each in model.bricks):
        return None
    ends: list[float] = []
    for brick, after in zip(model.bricks, model.after, strict=True):
        own = float(np.median(times[brick].us)) if times[brick].us else 0.0
        ends.append(own + max((ends[each] for each in after), default=0.0))
    return max(ends) / 1e3


def _middle(values: Sequence[float]) -> float | None:
    return float(np.median(values)) / 1e3 if values else None
