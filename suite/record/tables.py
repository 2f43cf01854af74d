"""Tables in a terminal that never cut off a name or figure."""

from __future__ import annotations

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

LONGEST = 32  # characters of a word that is never broken; addresses and paths are longer
WIDEST = 10_000  # the room for which a table's natural width is measured


def plain_console(width: int, kind: type[Console] = Console) -> Console:
    """A console that shows text as it is; if it is not a terminal, its lines have `width` characters."""
    made = kind(highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = width
    return made


def show_table(to: Console, table: Table) -> None:
    """Print a table. Its widest columns wrap between words; if that is not enough, the table is wider than `to`."""
    ample = to.options.update(width=WIDEST)
    least, widths = list[int](), list[int]()
    for column in table.columns:
        cells = [Measurement.get(to, ample, each) for each in (column.header, *column.cells)]
        least.append(max((each.minimum for each in cells if each.minimum <= LONGEST), default=LONGEST))
        widths.append(max(each.maximum for each in cells))
    frame = Measurement.get(to, ample, table).maximum - sum(widths)
    while frame + sum(widths) > to.width:
        wraps = [at for at, width in enumerate(widths) if width > least[at]]
        if not wraps:
            break
        widths[max(wraps, key=widths.__getitem__)] -= 1
    for column, column.width in zip(table.columns, widths, strict=True):
        column.overflow = "fold"
    table.width = frame + sum(widths)
    to.print(table, crop=False)
