"""Show in the terminal what was made and composed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from suite.bricks.composing import Composed
from suite.bricks.record import Model, Timings
from suite.errors import printable
from suite.probe.showing import show_noisy
from suite.record.tables import show_table

MOST_SHOWN = 8
UNKNOWN = "not known"


def made(to: Console, models: Sequence[Model], bricks: int, failed: dict[str, str]) -> None:
    """Print the numbers of calls, steps and unique bricks, and what has no bricks."""
    calls = sum(model.calls for model in models)
    steps = sum(len(model.bricks) for model in models)
    share = f", {100 * bricks / steps:.1f} %" if steps else ""
    batches = f" of {len(models[0].starts)} batches" if len(models[0].starts) > 1 else ""
    to.print(f"{len(models)} models: {calls:,} calls in {steps:,} steps{batches}, of which unique {bricks:,}{share}")
    for name, why in failed.items():
        to.print(Text(f"no bricks of {name}: {why}", "yellow"), soft_wrap=True)
    _left_out(to, sum((Counter(model.left_out) for model in models), Counter()))


def composed(to: Console, found: Sequence[Composed], timings: Timings) -> None:
    """Print a row for each model, then what is in none of its sums."""
    of = f"{timings.framework} {timings.mode} {timings.precision} on hw={timings.system}"
    to.print(printable(f"{of}, threads {timings.threads or 'not set'}, {timings.date}"))
    show_noisy(to, timings.noisy)
    table = Table()
    table.add_column("model")
    for name in ("ms", "95 % interval", "hot", "cold", "between", "from memory", "longest path", "steps", "unique"):
        table.add_column(name, justify="right")
    for each in found:
        point = each.sequential
        between = "" if point.low is None or point.high is None else f"{point.low:.4g} to {point.high:.4g}"
        table.add_row(
            Text(_name(each.model)),
            *(_number(point.value), between, *map(_number, (each.hot, each.cold, each.between))),
            *(UNKNOWN if each.share is None else f"{each.share:.0%}", _number(each.critical)),
            *(str(each.steps), str(each.unique)),
        )
    show_table(to, table)
    for each in found:
        name = _name(each.model)
        if each.missing:
            whys = Counter(timings.times[at].why or "not run" for at in each.model.bricks if not timings.times[at].hot)
            (why, _), *_ = whys.most_common(1)
            to.print(
                Text(f"{name}: {each.missing} steps have no time and are in no sum: {printable(why)}", "yellow"),
                soft_wrap=True,
            )
        _left_out(to, Counter(each.model.left_out), f"{name}: ")


def rows(found: Sequence[Composed]) -> list[dict[str, Any]]:
    """The composed models as JSON values; times in milliseconds."""
    return [
        {
            "conditions": each.model.conditions.model_dump(exclude_none=True),
            "ms": each.sequential.value,
            "low": each.sequential.low,
            "high": each.sequential.high,
            "hot": each.hot,
            "cold": each.cold,
            "between": each.between,
            "from memory": each.share,
            "longest path": each.critical,
            "steps": each.steps,
            "unique": each.unique,
            "steps without a time": each.missing,
            "calls left out": each.model.left_out,
        }
        for each in found
    ]


def _name(model: Model) -> str:
    of = model.conditions
    return printable(of.name) + (", evaluation" if of.task and of.mode == "infer" else "")


def _left_out(to: Console, counted: Counter[str], of: str = "") -> None:
    if not counted:
        return
    told = [f"{printable(name)} {count}" for name, count in counted.most_common(MOST_SHOWN)]
    more = f" and {len(counted) - MOST_SHOWN} more" if len(counted) > MOST_SHOWN else ""
    to.print(
        Text(f"{of}left out, no bricks: {counted.total()} calls of {', '.join(told)}{more}", "yellow"), soft_wrap=True
    )


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.4g}"
