"""Which system to take: the cheapest that keeps a deadline, the fastest within a budget."""

from __future__ import annotations

from collections.abc import Sequence

from suite.forecast.model import Forecast


def cheapest(forecasts: Sequence[Forecast], deadline: float) -> Forecast | None:
    """That of the least median cost among those whose interval ends before the deadline, in seconds."""
    kept = [each for each in forecasts if each.cost and each.seconds.high <= deadline]
    return min(kept, key=lambda each: each.cost.median if each.cost else 0.0, default=None)


def fastest(forecasts: Sequence[Forecast], budget: float) -> Forecast | None:
    """That of the least median time among those whose interval of cost ends within the budget."""
    kept = [each for each in forecasts if each.cost and each.cost.high <= budget]
    return min(kept, key=lambda each: each.seconds.median, default=None)
