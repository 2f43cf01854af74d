"""The rows as a table with the failures below it, or as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from suite.check.ledger import Row, Status
from suite.errors import printable
from suite.record.tables import plain_console, show_table

STYLES: dict[Status, str] = {"pass": "green", "fail": "bold red", "skipped": "yellow"}


def show(rows: Sequence[Row]) -> None:
    """Print a table of all rows, then for each failure what was expected, what was found, and the contract."""
    console = plain_console(200)
    table = Table("benchmark", "framework", "promise", "result", box=None, pad_edge=False)
    for row in rows:
        result = Text(row.status, style=STYLES[row.status])
        if row.status == "skipped":
            result.append(f": {printable(row.found)}", style="default")
        table.add_row(row.benchmark, row.framework, row.promise, result)
    show_table(console, table)
    for row in rows:
        if row.status == "fail":
            console.print()
            console.print(f"{row.benchmark} {row.framework}".rstrip(), style="bold", soft_wrap=True)
            for name in ("expected", "found", "contract"):
                text = row.promise if name == "expected" else getattr(row, name)
                console.print(f"  {name:<9} {printable(text)}", soft_wrap=True)
            if row.mend:
                console.print(f"  {'mend':<9} {row.mend.replace(chr(10), chr(10) + ' ' * 12)}", soft_wrap=True)
    counts = Counter(row.status for row in rows)
    console.print()
    console.print(", ".join(f"{status}: {counts[status]}" for status in STYLES if counts[status]))


def as_json(rows: Sequence[Row]) -> str:
    """The rows as a JSON list; `promise` is what was expected."""
    return json.dumps([vars(row) for row in rows], indent=1)
