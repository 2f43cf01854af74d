"""Show forecasts in the terminal: of one system in full, of many as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from suite.errors import printable
from suite.forecast.choosing import DEADLINE, Choice
from suite.forecast.model import COVERAGE, Forecast, Range
from suite.record.summary import format_cost, format_joules, format_seconds
from suite.record.tables import show_table

UNKNOWN = "not known"
PUBLISHED = "samples as others published them, of other code"


def whole(to: Console, made: Forecast) -> None:
    """Print one forecast and what it rests on."""
    to.print(Text(f"{made.benchmark} in {made.framework} on hw={made.system}"))
    if not made.measured:
        to.print(Text("ESTIMATE: no run of this benchmark was measured on this system", "yellow"))
    _published(to, made)
    table = Table("to the target", "median", f"{COVERAGE:.0%} of runs")
    for name, cells in _figures(made).items():
        table.add_row(name, *cells)
    show_table(to, table)
    shares = ", ".join(f"{name} {UNKNOWN if share is None else f'{share:.1%}'}" for name, share in made.shares.items())
    to.print(Text(f"limited by  {made.limited_by}: {shares}"), soft_wrap=True)
    to.print(Text(f"rates       {made.source}"), soft_wrap=True)
    for note in made.notes:
        to.print(Text(f"            {note}", "yellow" if note.startswith("NOISY") else ""), soft_wrap=True)


def many(to: Console, made: Sequence[Forecast], failed: Mapping[str, str]) -> None:
    """Print a row for each system, the fastest first; `failed` has the reasons why others have no forecast."""
    if made:
        to.print(Text(f"{made[0].benchmark} in {made[0].framework}", "bold"))
    table = Table("system", "time", f"{COVERAGE:.0%} of runs", "cost", "energy", "limited by", "rates")
    for each in sorted(made, key=lambda each: each.seconds.median):
        figures = _figures(each)
        table.add_row(
            each.system,
            *figures["time"],
            figures["cost"][0],
            figures["energy"][0],
            each.limited_by,
            "measured" if each.measured else "ESTIMATE",
        )
    show_table(to, table)
    if made:
        _published(to, made[0])
    for why in dict.fromkeys(failed.values()):
        names = ", ".join(name for name, its in failed.items() if its == why)
        to.print(Text(f"{names}: {UNKNOWN}: {printable(why)}"), soft_wrap=True)


def choices(to: Console, made: Sequence[Forecast], chosen: Sequence[Choice]) -> None:
    """Print the cheapest system for the deadline and the fastest for the budget."""
    currency = next((each.currency for each in made if each.currency), None)
    for each in chosen:
        most = format_seconds(each.most) if each.asked == DEADLINE else format_cost(each.most, currency)
        best = "cheapest" if each.asked == DEADLINE else "fastest"
        told = f"{each.forecast.system}: {brief(each.forecast)}" if each.forecast else each.why
        to.print(Text(f"{best} within {most}: {told}"), soft_wrap=True)


def brief(made: Forecast) -> str:
    """The forecast in a line."""
    figures = _figures(made)
    median, interval = figures["time"]
    cost = figures["cost"][0] if made.cost else f"cost {UNKNOWN}"
    marks = [*([] if made.measured else [made.source]), *([PUBLISHED] if made.published else [])]
    mark = f" ({'; '.join(marks)})" if marks else ""
    return f"{median}, {COVERAGE:.0%} of runs {interval}; {cost}{mark}"


def samples(told: Range) -> str:
    """The samples of a run in words."""
    median, interval = _cells(told, lambda value: f"{value:,.0f}")
    return f"{median} samples, {COVERAGE:.0%} of runs {interval}"


def _published(to: Console, made: Forecast) -> None:
    if made.published:
        to.print(Text(f"{PUBLISHED}: {made.published}", "yellow"), soft_wrap=True)


def _figures(made: Forecast) -> dict[str, tuple[str, str]]:
    """The median and the interval of each figure in words."""
    return {
        "samples": _cells(made.samples, lambda value: f"{value:,.0f}"),
        "time": _cells(made.seconds, format_seconds),
        "energy": _cells(made.joules, format_joules),
        "cost": _cells(made.cost, lambda value: format_cost(value, made.currency)),
    }


def _cells(told: Range | None, shown: Callable[[float], str]) -> tuple[str, str]:
    if told is None:
        return UNKNOWN, ""
    return shown(told.median), f"{shown(told.low)} to {shown(told.high)}"
