"""The page of a probe: one self-contained HTML file that works offline, with everything in it escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from suite.plots import scatter, templates
from suite.plots.charts import WIDTH
from suite.probe import comparing, pictures, showing
from suite.probe.pictures import ROW
from suite.probe.record import Cell, Figure, Probe

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
    return _bars([(cell.conditions.described, f"{first} {showing.text(each)}", each) for cell, each in having])


def _of_parts(cell: Cell) -> list[Bar]:
    """Bars for the shares of the cell's first MOST_BARS parts, in the cell's order."""
    known = comparing.measured(cell)  # at level=kernels intervals are of times, not of shares
    shares = [
        (row.name, known.get(f"{row.name}, share") or Figure(value=share, unit="%"))
        for row in cell.rows
        if (share := row.number("share")) is not None
    ]
    return _bars([(name, f"{showing.number(each.value)} %", each) for name, each in shares])[:MOST_BARS]


def _bars(named: Sequence[tuple[str, str, Figure]]) -> list[Bar]:
    """A bar for each figure, with its name and text, all to one scale."""
    most = max((max(each.value or 0, each.high or 0) for *_, each in named), default=1) or 1

    def scaled(value: float | None) -> float | None:
        return None if value is None else round(max(0.0, value) / most * (WIDTH - LABEL - 20), 2)

    return [
        Bar(name, text, at * ROW, scaled(each.value) or 0, scaled(each.low), scaled(each.high))
        for at, (name, text, each) in enumerate(named)
    ]
