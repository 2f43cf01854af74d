"""The pictures of a probe's page, as plain numbers for SVG: roofline, treemap, parts beside each other, a figure over
batch or size. Each has a table on the page that holds its figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

from suite.plots import charts, scatter, treemap
from suite.plots.charts import BOTTOM, HEIGHT, KINDS, LEFT, RIGHT, WIDTH, Chart, Tick
from suite.plots.scatter import TOP
from suite.probe import showing
from suite.probe.levels.kernels import US
from suite.probe.levels.layers import TIMES
from suite.probe.record import Cell, Conditions, Probe
from suite.probe.roof import COPY, PRODUCT

MOST_DOTS = 40  # of a roofline, those that take longest
LABELLED = 6  # of them, and only where their names do not touch
LONGEST = 16  # letters of such a name
LETTER = 7  # pixels of one
MOST_PARTS = KINDS  # that stand beside each other in a bar
OVER = ("batch", "size")
ROW = 22  # pixels of a bar


@dataclass(frozen=True)
class Dot:
    """A layer or operator in a roofline, in pixels; `label` may be empty, and ends at the dot if `left`."""

    x: float
    y: float
    radius: float
    text: str
    label: str
    left: bool


@dataclass(frozen=True)
class Roofline:
    """Operations a second over operations a byte, both logarithmic; `roof` are the points of a polyline."""

    x_ticks: list[Tick]
    y_ticks: list[Tick]
    dots: list[Dot]
    roof: str
    product: float
    copy: float
    left_out: int


@dataclass(frozen=True)
class Area:
    """A rectangle of a treemap; `kind` is what bounds the layer, or empty; `label` is as much of its name as fits."""

    tile: treemap.Tile
    kind: str
    text: str
    label: str


@dataclass(frozen=True)
class Piece:
    """A part in a bar, in pixels; `kind` is its colour."""

    x: float
    width: float
    kind: int
    text: str


@dataclass(frozen=True)
class Stack:
    """A cell as a bar of its parts."""

    name: str
    y: float
    pieces: list[Piece]


def roofline(cell: Cell) -> Roofline | None:
    """The cell's parts under the measured limits of the machine; None if the cell does not have both."""
    product, copy = (figure.value if (figure := cell.figures.get(name)) else None for name in (PRODUCT, COPY))
    found = sorted(_performances(cell), key=lambda each: -each[3])[:MOST_DOTS]
    if not product or not copy or not found:
        return None
    xs = [x for _, x, _, _ in found] + [product / copy / 4, product / copy * 4]
    low, high = min(xs), max(xs)
    ys = [y for _, _, y, _ in found] + [product, min(product, low * copy)]
    across = scatter.LogScale(xs, LEFT, WIDTH - RIGHT)
    up = scatter.LogScale(ys, HEIGHT - BOTTOM, TOP)
    corners = [(low, min(product, low * copy)), (product / copy, product), (high, product)]
    most = max(share for *_, share in found) or 1
    dots: list[Dot] = []
    for name, x, y, share in found:
        at, label = (across.at(x), up.at(y)), _within(name, LONGEST) if len(dots) < LABELLED else ""
        left = at[0] > WIDTH / 2
        touching = any(
            each.label and abs(each.y - at[1]) < 14 and abs(each.x - at[0]) < LETTER * (len(label) + len(each.label))
            for each in dots
        )
        text = (
            f"{name}: {showing.number(y)} GFLOP/s at {showing.number(x)} FLOP/B, {showing.number(share)} % of the time"
        )
        dots.append(Dot(*at, round(3 + 7 * math.sqrt(share / most), 2), text, "" if touching else label, left))
    return Roofline(
        across.ticks(scatter.figure),
        up.ticks(scatter.figure),
        dots,
        " ".join(f"{across.at(x)},{up.at(y)}" for x, y in corners),
        product,
        copy,
        len(cell.rows) - len(found),
    )


def areas(cell: Cell) -> list[Area]:
    """The layers as a treemap of their times; empty for a cell with fewer than two."""
    if "bound" not in cell.columns:
        return []
    rows = [(row, share) for row in cell.rows if (share := row.number("share")) and share > 0]
    if len(rows) < 2:
        return []
    places = treemap.tiles([share for _, share in rows], WIDTH, HEIGHT)
    return [
        Area(
            tile,
            str(row.values.get("bound") or ""),
            f"{row.name}: {showing.number(share)} %",
            _within(row.name, int(tile.width / LETTER) - 1) if tile.height > 18 else "",
        )
        for (row, share), tile in zip(rows, places, strict=True)
    ]


def stacks(probe: Probe) -> tuple[list[str], str, list[Stack]]:
    """The parts' names and unit, and each cell as a bar of them; empty for a single cell, too many parts or no unit."""
    cells = [cell for cell in probe.cells if cell.rows]
    names = list(dict.fromkeys(row.name for cell in cells for row in cell.rows))
    unit = "MB" if probe.level == "memory" else "share"
    if len(cells) < 2 or len(names) > MOST_PARTS or any(unit not in cell.columns for cell in cells):
        return [], "", []
    sizes = [[max(0.0, row.number(unit) or 0.0) for row in cell.rows] for cell in cells]
    most = max(map(sum, sizes)) or 1
    made = []
    for at, (cell, values) in enumerate(zip(cells, sizes, strict=True)):
        ends = pairwise([0.0, *accumulate(values)])
        pieces = [
            Piece(
                round(begin / most * WIDTH, 2),
                round((end - begin) / most * WIDTH, 2),
                names.index(row.name),
                f"{row.name}: {showing.number(end - begin)} {'%' if unit == 'share' else unit}",
            )
            for row, (begin, end) in zip(cell.rows, ends, strict=True)
        ]
        made.append(Stack(cell.conditions.described, at * 2 * ROW, pieces))
    return names, "%" if unit == "share" else unit, made


def against_inference(probe: Probe) -> list[str]:
    """For each pair of cells, a sentence: how many times as large the first figure is in training as in inference."""
    alike: dict[Conditions, dict[str, Cell]] = {}
    for cell in probe.cells:
        if cell.figures:
            alike.setdefault(cell.conditions.model_copy(update={"mode": "infer"}), {})[cell.conditions.mode] = cell
    found = []
    for conditions, modes in alike.items():
        if len(modes) == 2:
            name = next(iter(modes["train"].figures))
            train, infer = (modes[mode].figures[name].value for mode in ("train", "infer"))
            if train and infer:
                found.append(f"{name} of {conditions.described}: training {train / infer:.3g} times inference")
    return found


def over(probe: Probe) -> Iterator[Chart]:
    """Charts of the first figure over batch and over size, with a curve for all cells that are otherwise alike."""
    name, unit = next(iter(showing.figure_names(probe)), ""), ""
    for axis in OVER:
        curves: dict[Conditions, list[tuple[float, float]]] = {}
        for cell in probe.cells:
            x, figure = getattr(cell.conditions, axis), cell.figures.get(name)
            if x is not None and figure is not None and figure.value is not None:
                unit = figure.unit
                curves.setdefault(cell.conditions.model_copy(update={axis: None}), []).append((x, figure.value))
        lines = {each: sorted(places) for each, places in curves.items() if len(places) > 1}
        if not lines:
            continue
        places = [place for line in lines.values() for place in line]
        across = charts.Scale(0, max(x for x, _ in places), LEFT, WIDTH - RIGHT)
        up = charts.Scale(0, max(y for _, y in places), HEIGHT - BOTTOM, charts.TOP)
        yield Chart(
            axis=axis,
            metric=f"{name}, {unit}".rstrip(", "),
            x_ticks=across.ticks(),
            y_ticks=up.ticks(),
            curves=[
                charts.curve(each.described, kind, line, across, up) for kind, (each, line) in enumerate(lines.items())
            ],
        )


def _performances(cell: Cell) -> Iterator[tuple[str, float, float, float]]:
    """Yield, for each part that takes operations, its name, FLOP/B, GFLOP/s and share in %."""
    for row in cell.rows:
        flops, moved, share = map(row.number, ("GFLOP", "MB", "share"))
        milliseconds = sum(row.number(name) or 0 for name in (*TIMES, "time")) or (row.number(US) or 0) / 1e3
        if flops and moved and share and milliseconds:
            yield row.name, 1e3 * flops / moved, 1e3 * flops / milliseconds, share


def _within(name: str, room: int) -> str:
    """As many of the last parts of a layer's path as fit into `room` letters; for an operator, its kind."""
    parts = name.partition(" ")[0].split(".") if " " in name and not name.startswith("(") else name.split(".")
    while parts and len(".".join(parts)) > room:
        parts.pop(0)
    return ".".join(parts)
