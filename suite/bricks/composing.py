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
ALIVE = 3  # tensors in use at a time, as large as the largest input: an operator's input, its result, the one before


@dataclass(frozen=True)
class Composed:
    """A model's time in milliseconds.

    `sequential` is the sum of its bricks, `critical` the part of it on their longest path; `hot` and `cold` are the
    sums with weights in the caches and in memory. All include `between`, the host's work between the calls, and are
    None where nothing could be timed. `share` is the part of what a step touches that is taken to come from memory,
    None without times of cold weights.
    `missing` counts the steps whose bricks have no time; they are in no sum. `batches` has the time of each batch.
    """

    model: Model
    sequential: Figure
    critical: float | None
    hot: float | None
    cold: float | None
    between: float | None
    share: float | None
    steps: int
    unique: int
    missing: int
    batches: tuple[float, ...]


def compose(model: Model, times: Sequence[Time], cache: Cache, pace: float | None = None) -> Composed:
    """The time of a model on a machine with that cache and that pace of Python, the mean of its batches.

    A round is the sum of the model's bricks in that round. The time lies between the median rounds with hot and with
    cold weights, by the share of what a step touches that the cache does not keep until the next step. Of an even
    number of rounds the lower middle one counts, because disturbances only make a round longer.
    """
    chosen, batches, counts = [times[each] for each in model.bricks], len(model.starts), Counter(model.bricks)
    held = sum(each.held for each in chosen) / batches
    read = held + ALIVE * max((each.given for each in chosen), default=0)
    hot, cold = (
        [each / batches for each in sums([(count, getattr(times[at], name)) for at, count in counts.items()])]
        for name in ("hot", "cold")
    )
    share = cache.share(read) if cold else None
    more = share * (median_low(cold) - median_low(hot)) if share else 0.0
    between = None if model.between is None or pace is None else model.between * pace
    beside = between or 0.0
    own = {at: _point(times[at], share or 0.0) for at in counts}
    if whole := sum(count * own[at] for at, count in counts.items()) / batches:
        own = {at: each * (median_low(hot) + more) / whole for at, each in own.items()}  # their sum is the model's time
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
    """The times of each brick in the rounds that count: all of them, or only the quickest."""
    return [quickest(each) for each in timings.times] if timings.quickest else timings.times


def quickest(time: Time) -> Time:
    """The time as if the brick had been run in its quickest round only.

    There are fewer cold rounds than hot ones, and the quickest of few is slower than the quickest of many. So the cold
    time is the hot one times the ratio of the two in the rounds that had both.
    """
    hot, cold = tuple(sorted(time.hot)[:1]), tuple(sorted(time.cold)[:1])
    if hot and cold:
        cold = (hot[0] * cold[0] / min(time.hot[::COLD]),)
    return time.model_copy(update={"hot": hot, "cold": cold})


def sums(rounds: Sequence[tuple[int, Sequence[float]]]) -> list[float]:
    """The sum of each round over all bricks with times, each times its count; one round of 0 if there are no bricks."""
    measured = [count * np.asarray(each) for count, each in rounds if each] if rounds else [np.zeros(1)]
    return [float(each) for each in np.sum(measured, axis=0)] if measured else []


def _critical(model: Model, own: Mapping[int, float], beside: float) -> float | None:
    """Milliseconds of the longest path, the mean of batches; `own` and `beside` are microseconds."""
    if not any(own.values()):
        return None
    ends: list[float] = []
    for brick, after in zip(model.bricks, model.after, strict=True):
        ends.append(own[brick] + max((ends[each] for each in after), default=0.0))
    longest = sum(max(its, default=0.0) for its in _parted(model, ends)) / len(model.starts)
    return (longest + beside) / 1e3


def _parted(model: Model, steps: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split the values of a model's steps into its batches."""
    for start, end in pairwise((*model.starts, len(steps))):
        yield steps[start:end]


def _point(time: Time, share: float) -> float:
    """Microseconds of a brick; 0 if it was not timed."""
    if not time.hot:
        return 0.0
    hot = median_low(time.hot)
    return hot + share * (median_low(time.cold) - hot) if time.cold else hot


def _middle(values: Sequence[float], beside: float) -> float | None:
    return (median_low(values) + beside) / 1e3 if values else None
