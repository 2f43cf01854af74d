"""Why a condition of the rule files did not hold: what it asked, and the values that decided."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from typing import Any

from suite.errors import shown
from suite.mlperf.compiling import Test, function_of
from suite.mlperf.lines import LogLine
from suite.mlperf.wording import Clause, clauses

_MOST = 10  # items of a list that are named, at most


def asked(test: Test) -> str:
    """What the whole condition asks, worded to follow a key."""
    return " and ".join(clause.asked for clause in _clauses(test.text)).replace(" and with value ", " and ")


def decided(test: Test, s: dict[str, Any], line: LogLine | None, v: Any, second: float) -> tuple[str, str]:
    """What the first clause that does not hold asks, and what was found, both worded to follow the line's key.

    `second` is one second in the unit of the log's times.
    """
    made = _clauses(test.text)
    broken = next((clause for clause in made if not _value(clause.condition, s, line, v)), made[-1])
    if broken.span:
        since, most = (_value(part, s, line, v) for part in broken.span)
        minute = 60 * second
        if line is not None and isinstance(since, int | float) and isinstance(most, int | float):
            return (
                f"less than {most / minute:g} minutes {broken.asked}",
                f"{(line.timestamp - since) / minute:.1f} minutes {broken.asked}",
            )
    if broken.items:
        found, wanted = (_value(part, s, line, v) for part in broken.items)
        return broken.asked, _difference(found, wanted)
    if broken.contrary:
        return broken.asked, broken.contrary
    values = [(name, _value(part, s, line, v)) for name, part in broken.decided_by]
    return broken.asked, ", ".join(_named(name, value) for name, value in values)


def best(test: Test, s: dict[str, Any], lines: list[LogLine]) -> LogLine:
    """The one of `lines` that came nearest to the condition's first clause, else the last; none meets the condition."""
    match _clauses(test.text)[0].condition:
        case ast.Compare(left, [relation], [ast.Constant()]):
            values = [_value(left, s, line, line.value) for line in lines]
            numbers = [(value, at) for at, value in enumerate(values) if isinstance(value, int | float)]
            if numbers:
                choose = max if isinstance(relation, ast.Gt | ast.GtE) else min
                return lines[choose(numbers)[1]]
    return lines[-1]


@cache
def _clauses(text: str) -> tuple[Clause, ...]:
    return tuple(clauses(ast.parse(text.strip(), mode="eval").body))


def _value(part: ast.expr, s: dict[str, Any], line: LogLine | None, v: Any) -> Any:
    """The value of a part of a condition; None if it cannot be computed, as when a logged value has the wrong type."""
    try:
        return function_of(part)(s, line, v)
    except Exception:
        return None


def _named(name: str, value: Any) -> str:
    if name == "value":
        return shown(value)
    if name == "metadata" and isinstance(value, dict):
        return f"metadata with {', '.join(map(shown, value)) or 'nothing'}"
    return f"{name} {f'{value:g}' if isinstance(value, float) else shown(value)}"


def _difference(found: Any, wanted: Any) -> str:
    try:
        missing, unknown = set(wanted) - set(found), set(found) - set(wanted)
    except TypeError:
        return shown(found)
    parts = [(missing, "missing"), (unknown, "not asked for")]
    return "; ".join(f"{len(items)} {what}: {_some(items)}" for items, what in parts if items) or "one of them twice"


def _some(items: Iterable[Any]) -> str:
    names = sorted(map(shown, items))
    return ", ".join(names[:_MOST]) + (", ..." if len(names) > _MOST else "")
