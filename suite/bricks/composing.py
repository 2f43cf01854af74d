"""The time of a model from the times of its bricks: one after the other, and along the longest path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low
from typing import TypeVar

import numpy as np

from suite.bricks.record import COLD, Cache, Model, Time, Timings
from suite.probe.measuring import median
from suite.probe.record import Figure

T = TypeVar("T")
ALIVE = 3  # tensors as large as the largest one given, at a time: an operator's own, its result, and the one before


@dataclass(frozen=True)
class Composed:
    """A model's time in milliseconds: `sequential`, the sum; `critical`, of its longest path; the bracket by caches.

    `share` is the part of what a step goes through that is taken to come from memory. What the host does `between` the
    calls is in all of them. None where nothing could be timed. `missing` are steps whose bricks have no time, which are
    in no sum. `batches` are the times of each batch.
    """

    model: Model
    sequential: Figure
    critical: float | None
    hot: float | None
    cold: float | None
    between: float | None
    share: float
    steps: int
    unique: int
    missing: int
    batches: tuple[float, ...]


def compose(model: Model, times: Sequence[Time], cache: Cache, pace: float | None = None) -> Composed:
    """The time of a model on a machine with that cache and that pace of Python, the mean of its batches.

    With hot weights it is the median of its rounds, each the sum of its bricks' in that round, and with cold ones too;
    between these it lies by the part of what a step goes through that the cache does not keep until the next. Of two
    rounds the quicker counts, since whatever disturbs makes it longer.
    """
    chosen, batches, counts = [times[each] for each in model.bricks], len(model.starts), Counter(model.bricks)
    held = sum(each.held for each in chosen) / batches
    share = cache.share(held + ALIVE * max((each.given for each in chosen), default=0))
    hot, cold = (
        [each / batches for each in sums([(count, getattr(times[at], name)) for at, count in counts.items()])]
        for name in ("hot", "cold")
    )
    more = share * (median_low(cold) - median_low(hot)) if hot and cold else 0.0
    between = None if model.between is None or pace is None else model.between * pace
    beside = between or 0.0
    own = {at: _point(times[at], share) for at in counts}
    return Composed(
        model=model,
        sequential=median([(each + more + beside) / 1e3 for each in hot], "ms"),
        critical=_critical(model, own, beside),
        hot=_middle(hot, beside),
        cold=_middle(cold, beside),
        between=None if between is None else between / 1e3,
        share=share,
        steps=round(len(chosen) / batches),
        unique=len(counts),
        missing=sum(not each.hot for each in chosen),
        batches=tuple((sum(own[each] for each in its) + beside) / 1e3 for its in _parted(model, model.bricks)),
    )


def counted(timings: Timings) -> Sequence[Time]:
    """The times of the rounds that count: of each brick all, or the quickest alone."""
    return [quickest(each) for each in timings.times] if timings.quickest else timings.times


def quickest(time: Time) -> Time:
    """The same, as if it had been run in its quickest round alone.

    Of few rounds the quickest is slower than of many: so cold weights count by what they made of the same rounds.
    """
    hot, cold = tuple(sorted(time.hot)[:1]), tuple(sorted(time.cold)[:1])
    if hot and cold:
        cold = (hot[0] * cold[0] / min(time.hot[::COLD]),)
    return time.model_copy(update={"hot": hot, "cold": cold})


def sums(rounds: Sequence[tuple[int, Sequence[float]]]) -> list[float]:
    """Of each round, over all that have any, each so many times; nothing of nothing is one round of 0."""
    measured = [count * np.asarray(each) for count, each in rounds if each] if rounds else [np.zeros(1)]
    return [float(each) for each in np.sum(measured, axis=0)] if measured else []


def _critical(model: Model, own: Mapping[int, float], beside: float) -> float | None:
    """Milliseconds of the longest path, by the microseconds of each brick; the mean of batches."""
    if not any(own.values()):
        return None
    ends: list[float] = []
    for brick, after in zip(model.bricks, model.after, strict=True):
        ends.append(own[brick] + max((ends[each] for each in after), default=0.0))
    longest = sum(max(its, default=0.0) for its in _parted(model, ends)) / len(model.starts)
    return (longest + beside) / 1e3


def _parted(model: Model, steps: Sequence[T]) -> Iterator[Sequence[T]]:
    """What there is of each step of a model, batch by batch."""
    for start, end in pairwise((*model.starts, len(steps))):
        yield steps[start:end]


def _point(time: Time, share: float) -> float:
    """Microseconds of a brick; 0 where it has none."""
    if not time.hot:
        return 0.0
    hot = median_low(time.hot)
    return hot + share * (median_low(time.cold) - hot) if time.cold else hot


def _middle(values: Sequence[float], beside: float) -> float | None:
    return (median_low(values) + beside) / 1e3 if values else None
