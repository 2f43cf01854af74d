"""Geometry of the page's drawings: plain numbers that the template puts into SVG. Each has a table beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from suite.record.history import History, Interval

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 40
KINDS = 6  # colours and dashes; curves beyond them share

Axis = Literal["seconds", "samples"]
Evaluations = Sequence[tuple[int, float]]  # (samples, quality) of each


class Pixels(Protocol):
    """An axis."""

    def at(self, value: float) -> float:
        """The pixel of a value."""
        ...


@dataclass(frozen=True)
class Group:
    """Runs that are drawn together, by their names in the folder `title`.

    `reference` has the curves of the reference's runs.
    """

    title: str
    metric: str
    target: float | None
    runs: list[tuple[str, History]]
    reference: Sequence[Evaluations] = ()
    test: str = ""
    outcome: str = ""


@dataclass(frozen=True)
class Tick:
    """A place on an axis, in pixels, and its label."""

    at: float
    label: str


@dataclass(frozen=True)
class Curve:
    """A run's curve: `points` of an SVG polyline, the last of them, its kind from 0, and its run's name."""

    points: str
    last: tuple[float, float]
    kind: int
    name: str


@dataclass(frozen=True)
class Chart:
    """A figure over `axis`, with a curve for each run or the like; `target` is the y pixel of the target's line.

    `band` is the polygon between the lowest and highest qualities of the reference's runs, over samples.
    """

    axis: str
    metric: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    curves: list[Curve]
    band: str = ""
    target: float | None = None
    target_value: float | None = None


@dataclass(frozen=True)
class Bar:
    """An interval of a timeline that is WIDTH wide in all, as SVG numbers."""

    name: str
    x: float
    width: float
    title: str


def chart(group: Group, axis: Axis, names: Sequence[str] = ()) -> Chart | None:
    """The chart of a group's runs over `axis`; None if no evaluation has a value on it.

    With `names`, runs of one name share its kind of line, else each has its own.
    """
    runs = [(name, places) for name, history in group.runs if (places := _places(history, axis))]
    if not runs:
        return None
    reference = band(group.reference) if axis == "samples" else []
    ends = [x for _, places in runs for x, _ in places] + [samples for samples, *_ in reference]
    heights = [y for _, places in runs for _, y in places] + [y for _, low, _, high in reference for y in (low, high)]
    heights += [] if group.target is None else [group.target]
    across = Scale(0, max(ends), LEFT, WIDTH - RIGHT)
    up = Scale(min(heights), max(heights), HEIGHT - BOTTOM, TOP)
    return Chart(
        axis=axis,
        metric=group.metric,
        x_ticks=across.ticks(),
        y_ticks=up.ticks(),
        curves=[
            curve(name, names.index(name) if names else at, places, across, up)
            for at, (name, places) in enumerate(runs)
        ],
        band=" ".join(
            [f"{across.at(samples)},{up.at(low)}" for samples, low, _, _ in reference]
            + [f"{across.at(samples)},{up.at(high)}" for samples, _, _, high in reversed(reference)]
        ),
        target=None if group.target is None else up.at(group.target),
        target_value=group.target,
    )


def bars(group: Group) -> list[tuple[str, History, list[Bar]]]:
    """The intervals of each run that has any, all runs to one scale."""
    runs = [(name, history) for name, history in group.runs if history.intervals]
    intervals = [interval for _, history in runs for interval in history.intervals]
    if not intervals:
        return []
    scale = Scale(min(i.start_s for i in intervals), max(i.stop_s for i in intervals), 0, WIDTH, margin=0)
    return [(name, history, [_bar(each, scale) for each in history.intervals]) for name, history in runs]


def _bar(interval: Interval, scale: Scale) -> Bar:
    width = max(0.5, round(scale.at(interval.stop_s) - scale.at(interval.start_s), 2))
    title = f"{interval.name} {interval.start_s:.1f} to {interval.stop_s:.1f} s"
    return Bar(interval.name, scale.at(interval.start_s), width, title)


def _places(history: History, axis: Axis) -> list[tuple[float, float]]:
    found = ((point.seconds if axis == "seconds" else point.samples, point.quality) for point in history.points)
    return [(x, y) for x, y in found if x is not None]


def curve(name: str, kind: int, places: Sequence[tuple[float, float]], across: Pixels, up: Pixels) -> Curve:
    """The curve through these places, left to right."""
    drawn = [(across.at(x), up.at(y)) for x, y in places]
    return Curve(" ".join(f"{x},{y}" for x, y in drawn), drawn[-1], kind % KINDS, name)


def band(curves: Sequence[Evaluations]) -> list[tuple[int, float, float, float]]:
    """(samples, lowest, mean, highest quality) at each number of samples at which one of the runs was evaluated.

    A run counts from its first evaluation on. One that has ended keeps its last quality, because it reached the target
    there: without it the mean would fall.
    """
    made = []
    for samples in sorted({at for curve in curves for at, _ in curve}):
        reached = [[quality for at, quality in curve if at <= samples] for curve in curves]
        now = [qualities[-1] for qualities in reached if qualities]
        made.append((samples, min(now), sum(now) / len(now), max(now)))
    return made


class Scale:
    """Maps values from `low` to `high`, with a margin, to pixels; an empty range is widened."""

    def __init__(self, low: float, high: float, first: float, last: float, margin: float = 0.05) -> None:
        extent = max(high - low, 1e-9 * max(1.0, abs(high)))
        self.low, self.high = low - (margin * extent if low else 0), max(high, low + extent) + margin * extent
        self._first, self._last = first, last

    def at(self, value: float) -> float:
        """The pixel of a value; values beyond the range get that of its end."""
        share = (value - self.low) / (self.high - self.low)
        return round(self._first + min(1.0, max(0.0, share)) * (self._last - self._first), 2)

    def ticks(self) -> list[Tick]:
        """About five round values within the range."""
        rough = (self.high - self.low) / 5
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= rough)
        values: Sequence[float] = [
            k * step for k in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)
        ]
        return [Tick(self.at(value), _label(value, step)) for value in values[:12]]


def _label(value: float, step: float) -> str:
    if step >= 1:
        return f"{value:,.0f}" if abs(value) < 1e9 else f"{value:.3g}"
    return f"{value:.{max(1, -math.floor(math.log10(step)))}f}"
