"""Cost against time of each contest: the results of one benchmark, division, round and part of the data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from suite.plots.scatter import Mark, Scatter, scatter
from suite.record.summary import format_cost, format_seconds
from suite.results.entry import Entry, remarks, scored_by

ACCELERATORS = "accelerators"  # the axis where no result has a cost


def scatters(entries: Sequence[Entry]) -> list[Scatter]:
    """A drawing for each contest and currency, or by number of accelerators if no cost is known; none without dots."""
    numbered = sorted(enumerate(entries, 1), key=lambda each: each[1].contest)
    made = []
    for contest, each in groupby(numbered, key=lambda each: each[1].contest):
        here = list(each)
        currencies = {entry.currency for _, entry in here if entry.cost}
        for currency in sorted(currency for currency in currencies if currency):
            costs = [(number, entry, entry.cost if entry.currency == currency else None) for number, entry in here]
            made.append(_scatter(contest, f"cost in {currency}", costs))
        if not currencies:
            made.append(_scatter(contest, ACCELERATORS, [(n, entry, entry.accelerators) for n, entry in here]))
    return [each for each in made if each.dots]


def _scatter(contest: str, axis: str, values: Sequence[tuple[int, Entry, float | None]]) -> Scatter:
    marks = [
        Mark(n, entry.seconds, y, _contends(entry, axis), bool(remarks(entry)), _said(n, entry, axis, y))
        for n, entry, y in values
        if y and entry.seconds
    ]
    own = [str(n) for n, entry, y in values if y is not None and entry.own_price and axis != ACCELERATORS]
    remark = f"at a price of the submitter's own: {', '.join(own)}" if own else ""
    return scatter(contest, axis, marks, len(values) - len(marks), remark)


def _contends(entry: Entry, axis: str) -> bool:
    return entry.verdict == "pass" and not entry.short and (axis == ACCELERATORS or not entry.own_price)


def _said(number: int, entry: Entry, axis: str, y: float) -> str:
    figure = f"{y:g} accelerators" if axis == ACCELERATORS else format_cost(y, entry.currency)
    parts = [f"{number}: {entry.submitter}, {entry.system}", format_seconds(entry.seconds), scored_by(entry), figure]
    return "; ".join(part for part in (*parts, *remarks(entry)) if part)
