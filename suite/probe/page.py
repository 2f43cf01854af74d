"""The page of a probe: one self-contained HTML file that works offline, with everything in it escaped."""

from __future__ import annotations

from dataclasses import dataclass

from suite.plots import scatter, templates
from suite.plots.charts import WIDTH
from suite.probe import comparing, pictures, showing
from suite.probe.pictures import ROW
from suite.probe.record import Cell, Probe

LABEL = 330  # pixels for a bar's name
MOST_BARS = 25


@dataclass(frozen=True)
class Bar:
    """A bar in pixels with its name and text; the line from `low` to `high` is its interval."""

    name: str
    text: str
    y: float
    width: float
    low: float | None = None
    high: float | None = None


def html(probe: Probe) -> str:
    """The page."""
    parted, unit, stacks = pictures.stacks(probe)
    return templates.page(
        "probe.html",
        "suite.probe",
        css=("page.css", "probe.css"),
        probe=probe,
        names=showing.figure_names(probe),
        text=showing.text,
        number=showing.number,
        whole=_of_cells(probe),
        parts=_of_parts,
        parted=parted,
        unit=unit,
        stacks=stacks,
        beside=comparing.beside(probe.cells) if probe.level == showing.BESIDE else [],
        against_inference=pictures.against_inference(probe),
        over=list(pictures.over(probe)),
        roofline=pictures.roofline,
        areas=pictures.areas,
        above=scatter.TOP,
        row=ROW,
        label=LABEL,
    )


def _of_cells(probe: Probe) -> list[Bar]:
    """A bar for the first figure of each cell; none unless several cells have it."""
    first = next(iter(showing.figure_names(probe)), "")
    having = [
        (cell, figure) for cell in probe.cells if (figure := cell.figures.get(first)) and figure.value is not None
    ]
    if len(having) < 2:
        return []
    most = max(max(each.value or 0, each.high or 0) for _, each in having) or 1
    return [
        Bar(
            cell.conditions.described,
            f"{first} {showing.text(each)}",
            at * ROW,
            _scaled(each.value, most) or 0,
            _scaled(each.low, most),
            _scaled(each.high, most),
        )
        for at, (cell, each) in enumerate(having)
    ]


def _of_parts(cell: Cell) -> list[Bar]:
    """Bars for the shares of the cell's first MOST_BARS parts, in the cell's order."""
    rows = [(row, share) for row in cell.rows if (share := row.number("share")) is not None]
    most = max((max(share, row.number("to") or 0) for row, share in rows), default=1) or 1
    return [
        Bar(
            row.name,
            f"{showing.number(share)} %",
            at * ROW,
            _scaled(share, most) or 0,
            _scaled(row.number("from"), most),
            _scaled(row.number("to"), most),
        )
        for at, (row, share) in enumerate(rows[:MOST_BARS])
    ]


def _scaled(value: float | None, most: float) -> float | None:
    return None if value is None else round(max(0.0, value) / most * (WIDTH - LABEL - 20), 2)
