"""Print a probe. It may be a stranger's, so consoles take no markup and get nothing unprintable."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from suite.errors import printable
from suite.probe import comparing
from suite.probe.record import Cell, Conditions, Figure, Probe
from suite.record.summary import format_count
from suite.record.tables import show_table

BESIDE = "kernels"  # the level whose rows are the same in several cells
MOST_ROWS = 15  # of a cell; all are in the JSON


def show(console: Console, probe: Probe) -> None:
    """Print what was found: a line for each cell, then the parts of each."""
    varying = _varying(probe.cells)
    first = probe.cells[0].conditions
    same = [
        f"{name}={value}" for name, value in first.model_dump().items() if value is not None and name not in varying
    ]
    repeats = format_count(probe.repeats, "repeat")
    title = f"{probe.level} of {' '.join(same)} on {probe.system}, {repeats}"
    console.print(printable(title), soft_wrap=True)
    names = figure_names(probe)
    table = Table(*varying, *map(printable, names))
    for cell in probe.cells:
        values = [printable(str(getattr(cell.conditions, name))) for name in varying]
        if cell.error:
            table.add_row(*values, Text("see below", "red"))
        else:
            table.add_row(*values, *(text(cell.figures[name]) if name in cell.figures else "" for name in names))
    if names:
        show_table(console, table)
    for cell in probe.cells:
        _show_parts(console, cell, of=len(probe.cells))
    if probe.level == BESIDE and (rows := comparing.beside(probe.cells)):
        _show_beside(console, [cell.conditions.described for cell in probe.cells], rows)
    show_noisy(console, probe.noisy)


def figure_names(probe: Probe) -> list[str]:
    """The names of all figures, those of the first cells first."""
    return list(dict.fromkeys(name for cell in probe.cells for name in cell.figures))


def show_noisy(console: Console, whys: Iterable[str]) -> None:
    """Print what disturbed the machine."""
    for why in whys:
        console.print(Text(f"NOISY  {printable(why)}", "yellow"), soft_wrap=True)


def text(figure: Figure) -> str:
    """A figure with its interval and unit."""
    if figure.value is None:
        return "not known"
    interval = "" if figure.low is None or figure.high is None else f" [{number(figure.low)}, {number(figure.high)}]"
    unit = figure.unit if figure.unit not in ("", "1/s", "1e9/s") else ""
    return f"{number(figure.value)}{interval} {printable(unit)}".rstrip()


def number(value: float | str | None) -> str:
    """A number to four significant digits, or to the unit where it has more; a text as it is."""
    if value is None:
        return ""
    if isinstance(value, str):
        return printable(value)
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"


def _varying(cells: list[Cell]) -> list[str]:
    """The conditions that differ between the cells."""
    names = [*Conditions.model_fields]
    return [name for name in names if len({getattr(cell.conditions, name) for cell in cells}) > 1]


def _show_parts(console: Console, cell: Cell, of: int) -> None:
    described = printable(cell.conditions.described)
    name = f"{described}: " if of > 1 else ""
    if cell.error:
        console.print(Text(f"{name}{printable(cell.error)}", "red"), soft_wrap=True)
    if cell.rows:
        units = ["\n".join(map(printable, filter(None, each))) for each in cell.columns.items()]
        table = Table("", *units)
        if of > 1:
            console.print(described)
        for row in cell.rows[:MOST_ROWS]:
            table.add_row(printable(row.name), *(number(row.values.get(each)) for each in cell.columns))
        show_table(console, table)
        if len(cell.rows) > MOST_ROWS:
            rest = cell.rows[MOST_ROWS:]
            shares = [share for row in rest if (share := row.number("share")) is not None]
            together = f", {sum(shares):.3g} % in all" if shares else ""
            console.print(f"and {len(rest)} more{together}: --json lists all")
    for note in cell.notes:
        console.print(f"{name}{printable(note)}", soft_wrap=True)


def _show_beside(console: Console, cells: list[str], rows: list[tuple[str, list[Figure | None]]]) -> None:
    table = Table("side by side", *map(printable, cells))
    for name, figures in rows[:MOST_ROWS]:
        table.add_row(printable(name), *("" if each is None else text(each) for each in figures))
    show_table(console, table)
    if len(rows) > MOST_ROWS:
        console.print(f"and {len(rows) - MOST_ROWS} more: --json lists all")


def show_compared(console: Console, a: Probe, b: Probe) -> None:
    """Print a comparison of two probes: their figures, the cells left out, and the differences that decided them."""
    table = Table("workload", "figure", "A", "B", "B / A", "which says")
    before = ""
    for each in comparing.compare(a, b):
        name = each.cell if each.cell != before else ""
        before = each.cell
        ratio = "" if each.ratio is None else f"{each.ratio:.3g}"
        table.add_row(*map(printable, (name, each.figure)), text(each.a), text(each.b), ratio, each.says)
    show_table(console, table)
    for why in comparing.left_out(a, b):
        console.print(printable(why), soft_wrap=True)
    if differing := comparing.differences(a, b):
        causes = Table("what decided them", "A", "B")
        for row in differing:
            causes.add_row(*map(printable, row))
        show_table(console, causes)
