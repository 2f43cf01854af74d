"""A figure against time, result by result, with the Pareto front: geometry that a page puts into SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from suite.plots import charts
from suite.plots.charts import BOTTOM, HEIGHT, LEFT, RIGHT, WIDTH, Tick
from suite.plots.templates import environment

Place = tuple[float, float]

# Round numbers of seconds for a wide range of times, and for a narrow one.
_TIMES = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 18000, 36000, 86400)
_FINE = tuple(each * unit for unit in (1, 60, 3600) for each in (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 25, 30, 40, 50))
TOP = 28  # pixels above the drawing, for the name of its axis
APART = 38, 18  # pixels, across and down, between two dots whose numbers do not touch
MAX_NUMBERED = 12  # dots; in a drawing of more, only those on the front are numbered


@dataclass(frozen=True)
class Mark:
    """A result to draw, by its number in the table: `seconds` across and `y` up, both positive.

    Only one that `contends` can be on the front. A `doubtful` one is drawn differently. `text` describes the result.
    """

    number: int
    seconds: float
    y: float
    contends: bool
    doubtful: bool
    text: str


@dataclass(frozen=True)
class Dot:
    """A result: its number in the table, its place in pixels, whether it is on the front, and its description."""

    number: int
    x: float
    y: float
    front: bool
    numbered: bool
    doubtful: bool
    text: str


@dataclass(frozen=True)
class Scatter:
    """One benchmark's results; both axes are logarithmic. `front` are the points of a polyline.

    `left_out` counts the results of which a figure is not known; `remark` stands in the legend.
    """

    benchmark: str
    axis: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    dots: list[Dot]
    front: str
    left_out: int
    remark: str


def pareto(places: Iterable[Place]) -> list[Place]:
    """The places that no other undercuts in one figure without exceeding it in the other, sorted by the first."""
    front: list[Place] = []
    for place in sorted(set(places)):
        if not front or place[1] < front[-1][1]:
            front.append(place)
    return front


def _stairs(front: Sequence[Place]) -> list[Place]:
    """The front as a line that goes right before it goes down: it claims nothing between two results."""
    corners = [[first, (second[0], first[1])] for first, second in pairwise(front)]
    return [place for pair in corners for place in pair] + list(front[-1:])


def scatter(benchmark: str, axis: str, marks: Sequence[Mark], left_out: int, remark: str = "") -> Scatter:
    """The drawing of these marks; without any it has no dots."""
    if not marks:
        return Scatter(benchmark, axis, [], [], [], "", left_out, remark)
    across = LogScale([mark.seconds for mark in marks], LEFT, WIDTH - RIGHT)
    up = LogScale([mark.y for mark in marks], HEIGHT - BOTTOM, TOP)
    front = pareto((mark.seconds, mark.y) for mark in marks if mark.contends)
    on_front = {mark.number for mark in marks if mark.contends and (mark.seconds, mark.y) in front}
    first = sorted(marks, key=lambda mark: mark.number not in on_front)
    numbered = _apart(
        (mark.number, across.at(mark.seconds), up.at(mark.y))
        for mark in first
        if mark.number in on_front or len(marks) <= MAX_NUMBERED
    )
    dots = [
        Dot(
            number=mark.number,
            x=across.at(mark.seconds),
            y=up.at(mark.y),
            front=mark.number in on_front,
            numbered=mark.number in numbered,
            doubtful=mark.doubtful,
            text=mark.text,
        )
        for mark in marks
    ]
    return Scatter(
        benchmark=benchmark,
        axis=axis,
        x_ticks=across.ticks(_time, _TIMES, _FINE),
        y_ticks=up.ticks(figure),
        dots=dots,
        front=" ".join(f"{across.at(x)},{up.at(y)}" for x, y in _stairs(front)),
        left_out=left_out,
        remark=remark,
    )


def _apart(places: Iterable[tuple[int, float, float]]) -> set[int]:
    """The numbers that can be drawn without touching one before them."""
    kept: list[tuple[int, float, float]] = []
    for number, x, y in places:
        if all(abs(x - a) >= APART[0] or abs(y - b) >= APART[1] for _, a, b in kept):
            kept.append((number, x, y))
    return {number for number, _, _ in kept}


def figure(value: float) -> str:
    """A tick's label."""
    return f"{value:.7f}".rstrip("0") if 1e-6 <= value < 1e-4 else f"{value:,.10g}"


def _time(seconds: float) -> str:
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:,.3g} {unit}"
    return f"{seconds:.3g} s"


class LogScale:
    """Maps positive values to pixels logarithmically, with a margin; spans at least a factor of three, for ticks."""

    def __init__(self, values: Sequence[float], first: float, last: float) -> None:
        low, high = math.log10(min(values)), math.log10(max(values))
        margin = max(0.08 * (high - low), 0.05, (0.5 - (high - low)) / 2)
        self._low, self._high, self._first, self._last = low - margin, high + margin, first, last

    def at(self, value: float) -> float:
        """The pixel of a value."""
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return round(self._first + share * (self._last - self._first), 2)

    def ticks(self, label: Callable[[float], str], *choices: Sequence[float]) -> list[Tick]:
        """About five values: of the first of `choices` with three in range, else powers of ten and round multiples."""
        exponents = range(math.floor(self._low), math.ceil(self._high) + 1)
        multiples = ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8))
        rounds = [[step * 10.0**each for each in exponents for step in steps] for steps in multiples]
        inside: list[float] = []
        for values in (*choices, *rounds):
            inside = [value for value in values if self._low <= math.log10(value) <= self._high]
            if len(inside) >= 3:
                break
        return [Tick(self.at(value), label(value)) for value in inside[:: max(1, round(len(inside) / 6))]]


def svg(drawn: Scatter) -> str:
    """The drawing as a file of its own, readable on light and on dark pages."""
    return environment().get_template("scatter.svg").render(s=drawn, c=charts, top=TOP)
