"""Draw cost against time: measured results filled, forecasts hollow, and the Pareto front of both."""

from __future__ import annotations

from collections.abc import Sequence

from suite.forecast.model import Forecast
from suite.plots.scatter import Mark, Scatter, scatter, svg
from suite.record.summary import format_cost, format_seconds
from suite.results.entry import Entry, remarks

FORECAST = "forecast"


def picture(forecasts: Sequence[Forecast], results: Sequence[Entry], benchmark: str) -> str:
    """The text of the SVG file; of the results, those of the benchmark with a score and a cost are drawn."""
    return svg(drawn(forecasts, results, benchmark))


def drawn(forecasts: Sequence[Forecast], results: Sequence[Entry], benchmark: str) -> Scatter:
    """The drawing; a forecast is drawn at its medians.

    A result can be on the front if it passed review with all its runs, in the closed division, on all the data, and at
    the suite's price.
    """
    here = [entry for entry in results if entry.benchmark == benchmark]
    places = [
        *(
            (
                entry.seconds,
                entry.cost,
                entry.currency,
                entry.verdict == "pass" and entry.contest == benchmark and not (entry.short or entry.own_price),
                entry.system,
                "; ".join(("measured", *_apart(entry), *remarks(entry))),
            )
            for entry in here
        ),
        *(
            (each.seconds.median, each.cost.median if each.cost else None, each.currency, True, each.system, FORECAST)
            for each in forecasts
        ),
    ]
    known = [place for place in places if place[0] and place[1]]
    currency = next((place[2] for place in known), None)
    marks = [
        Mark(
            number=number,
            seconds=seconds,
            y=cost,
            contends=contends,
            doubtful=what == FORECAST,
            text=f"{system}: {format_seconds(seconds)}, {format_cost(cost, unit)}, {what}",
        )
        for number, (seconds, cost, unit, contends, system, what) in enumerate(known, 1)
        if seconds and cost and unit == currency
    ]
    axis = f"cost in {currency}" if currency else "cost"
    return scatter(benchmark, axis, marks, len(places) - len(marks), "hollow: forecasts")


def _apart(entry: Entry) -> list[str]:
    """The contest of a result that is not simply of its benchmark."""
    return [] if entry.contest == entry.benchmark else [entry.contest]
