"""A treemap: rectangles that fill a frame, each as large as its share and as nearly square as possible.

By Bruls, Huizing and van Wijk, Squarified treemaps (2000).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Tile(NamedTuple):
    """A rectangle in pixels."""

    x: float
    y: float
    width: float
    height: float


def tiles(values: Sequence[float], width: float, height: float) -> list[Tile]:
    """A tile for each of the values, which must be above 0 and are best sorted with the largest first."""
    whole, left = sum(values), Tile(0, 0, width, height)
    areas = [value / whole * width * height for value in values]
    made: list[Tile] = []
    while areas:
        side = min(left.width, left.height)
        count = 1
        while count < len(areas) and _worst(areas[: count + 1], side) <= _worst(areas[:count], side):
            count += 1
        row, areas = areas[:count], areas[count:]
        made += _row(row, left)
        thick = sum(row) / side
        if left.width >= left.height:
            left = Tile(left.x + thick, left.y, max(0.0, left.width - thick), left.height)
        else:
            left = Tile(left.x, left.y + thick, left.width, max(0.0, left.height - thick))
        if min(left.width, left.height) < 1e-6:  # what rounding leaves over
            return made + [Tile(left.x, left.y, 0, 0)] * len(areas)
    return made


def _worst(row: Sequence[float], side: float) -> float:
    """The worst aspect ratio of a row's rectangles: the longer side divided by the shorter."""
    thick = sum(row) / side
    return max(max(thick * thick / area, area / (thick * thick)) for area in row)


def _row(row: Sequence[float], left: Tile) -> list[Tile]:
    """Lay areas along the shorter side of what is left."""
    thick, at, made = sum(row) / min(left.width, left.height), 0.0, []
    for area in row:
        long = area / thick
        if left.width >= left.height:
            made.append(Tile(left.x, left.y + at, thick, long))
        else:
            made.append(Tile(left.x + at, left.y, long, thick))
        at += long
    return made
