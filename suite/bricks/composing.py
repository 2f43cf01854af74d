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

    `share` is the part of its weights that is taken to come from memory. None where nothing could be timed. `missing`
    are steps whose bricks have no time, which are in no sum.
    """

    model: Model
    sequential: Figure
    critical: float | None
    hot: float | None
    cold: float | None
    share: float
    steps: int
    unique: int
    missing: int


def compose(model: Model, times: Sequence[Time], cache: int) -> Composed:
    """The time of a model on a machine whose largest cache has so many bytes.

    With hot weights it is the median of its rounds, each the sum of its bricks' in that round, and with cold ones too;
    between these it lies by the part of its weights for which the cache has no room.
    """
    chosen = [times[each] for each in model.bricks]
    held = sum(each.held for each in chosen)
    share = max(0.0, 1 - cache / held) if held else 0.0
    hot, cold = (sums([getattr(each, name) for each in chosen]) for name in ("hot", "cold"))
    more = share * (float(np.median(cold)) - float(np.median(hot))) if hot and cold else 0.0
    return Composed(
        model=model,
        sequential=median([(each + more) / 1e3 for each in hot], "ms"),
        critical=_critical(model, times, share),
        hot=_middle(hot),
        cold=_middle(cold),
        share=share,
        steps=len(chosen),
        unique=len(set(model.bricks)),
        missing=sum(not each.hot for each in chosen),
    )


def sums(rounds: Sequence[Sequence[float]]) -> list[float]:
    """Of each round, over all that have any."""
    measured = [each for each in rounds if each]
    return [float(each) for each in np.sum(measured, axis=0)] if measured else []


def _critical(model: Model, times: Sequence[Time], share: float) -> float | None:
    """Milliseconds of the longest path, by the median time of each brick."""
    own = {at: _point(times[at], share) for at in set(model.bricks)}
    if not any(own.values()):
        return None
    ends: list[float] = []
    for brick, after in zip(model.bricks, model.after, strict=True):
        ends.append(own[brick] + max((ends[each] for each in after), default=0.0))
    return max(ends) / 1e3


def _point(time: Time, share: float) -> float:
    """Microseconds of a brick; 0 where it has none."""
    if not time.hot:
        return 0.0
    hot = float(np.median(time.hot))
    return hot + share * (float(np.median(time.cold)) - hot) if time.cold else hot


def _middle(values: Sequence[float]) -> float | None:
    return float(np.median(values)) / 1e3 if values else None
