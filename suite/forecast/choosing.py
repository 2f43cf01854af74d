"""Choose a system: the cheapest that keeps a deadline, or the fastest within a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from suite.forecast.model import Forecast

DEADLINE, BUDGET = "deadline", "budget"


@dataclass(frozen=True)
class Choice:
    """The forecast chosen for what was `asked`, a DEADLINE of `most` seconds or a BUDGET; None if none, and `why`."""

    asked: str
    most: float
    forecast: Forecast | None
    why: str


def choices(forecasts: Sequence[Forecast], deadline: float | None, budget: float | None) -> list[Choice]:
    """A choice for each limit that is not None; none is made of no forecasts, or of prices in several currencies."""
    found, why = [], ""
    currencies = sorted({each.currency for each in forecasts if each.cost and each.currency})
    if not forecasts:
        why = "not known: no system has a forecast"
    elif len(currencies) > 1:
        why = f"not known: prices are in {' and '.join(currencies)}, which do not compare; name systems of one"
    if why:
        asked = {DEADLINE: deadline, BUDGET: budget}
        return [Choice(name, most, None, why) for name, most in asked.items() if most is not None]
    if deadline is not None:
        keeping = [each for each in forecasts if each.seconds.high <= deadline]
        found.append(Choice(DEADLINE, deadline, cheapest(forecasts, deadline), _why_none(keeping, "keep the deadline")))
    if budget is not None:
        found.append(Choice(BUDGET, budget, fastest(forecasts, budget), _why_none(forecasts, "may keep the budget")))
    return [replace(each, why="") if each.forecast else each for each in found]


def _why_none(forecasts: Sequence[Forecast], told: str) -> str:
    unpriced = [each.system for each in forecasts if each.cost is None]
    if not unpriced:
        return "none of these systems"
    return f"not known; these {told}, but their price is not known: {', '.join(unpriced)}"


def cheapest(forecasts: Sequence[Forecast], deadline: float) -> Forecast | None:
    """The forecast of least median cost among those whose interval of time ends within the deadline, in seconds."""
    kept = [each for each in forecasts if each.cost and each.seconds.high <= deadline]
    return min(kept, key=lambda each: each.cost.median if each.cost else 0.0, default=None)


def fastest(forecasts: Sequence[Forecast], budget: float) -> Forecast | None:
    """The forecast of least median time among those whose interval of cost ends within the budget."""
    kept = [each for each in forecasts if each.cost and each.cost.high <= budget]
    return min(kept, key=lambda each: each.seconds.median, default=None)
