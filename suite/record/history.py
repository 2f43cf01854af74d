"""What a run's log shows over time: its intervals, and the quality at each evaluation. For people to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import RESTART
from suite.record.mllog import Line, samples_of
from suite.record.parsing import number

MAX_POINTS = 400  # of a curve, and as many intervals
_BOUND = 1e15  # a value beyond it is not one that a person looks at

# key: the interval that it begins; an interval ends at the next of these keys, or at one of `_ENDS`
_BEGINS = {
    keys.INIT_START: "initialise",
    RESTART: "initialise",
    keys.RUN_START: "train",
    keys.BLOCK_START: "train",
    keys.EVAL_START: "evaluate",
    keys.EVAL_STOP: "train",
}
_ENDS = (keys.INIT_STOP, keys.BLOCK_STOP, keys.RUN_STOP)
READ = frozenset((*_BEGINS, *_ENDS, keys.EVAL_ACCURACY))  # keys that a history needs


@dataclass(frozen=True)
class Interval:
    """`name` is initialise, train, evaluate or lost; seconds since run_start, negative before it."""

    name: str
    start_s: float
    stop_s: float


@dataclass(frozen=True)
class Point:
    """An evaluation: seconds since run_start, training samples (None if the log does not tell), quality."""

    seconds: float
    samples: int | None
    quality: float


@dataclass(frozen=True)
class History:
    """At most MAX_POINTS evaluations, the last among them, and as many intervals; `left_out` counts the others."""

    intervals: tuple[Interval, ...] = ()
    points: tuple[Point, ...] = ()
    left_out: int = 0


@dataclass(frozen=True)
class Event:
    """A line of a log: its key, its time in seconds on any clock, its value and its training samples if it tells."""

    seconds: float
    key: str
    value: Any = None
    samples: int | None = None


def of_lines(lines: Sequence[Line]) -> History:
    """The history of a log of the suite's own."""
    return history([Event(line.time_ms / 1000, line.key, line.value, samples_of(line)) for line in lines])


def history(events: Sequence[Event]) -> History:
    """The history of a log's events in the order given, which is for the rules to judge. Empty without a run_start."""
    start = next((event.seconds for event in events if event.key == keys.RUN_START), None)
    if start is None:
        return History()
    intervals: list[Interval] = []
    points: list[Point] = []
    left_out = 0
    open_at: tuple[str, float] | None = None
    before = 0.0  # when the last interval began or ended
    for event in events:
        at = event.seconds - start
        if not abs(at) <= _BOUND:
            continue
        if event.key in _BEGINS or event.key in _ENDS:
            if event.key == RESTART:
                open_at = ("lost", before)
            if open_at and at > open_at[1]:
                intervals.append(Interval(*open_at, at))
            name, before = _BEGINS.get(event.key), at
            open_at = (name, at) if name else None
        if event.key == keys.EVAL_ACCURACY:
            quality = number(event.value)
            if quality is not None and abs(quality) <= _BOUND and (event.samples or 0) <= _BOUND:
                points.append(Point(at, event.samples, quality))
            else:
                left_out += 1
    left_out += max(0, len(points) - MAX_POINTS) + max(0, len(intervals) - MAX_POINTS)
    kept = points if len(points) <= MAX_POINTS else [*points[: MAX_POINTS - 1], points[-1]]
    return History(tuple(intervals[:MAX_POINTS]), tuple(kept), left_out)
