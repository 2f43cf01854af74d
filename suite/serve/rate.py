"""The rates that scenarios need: of all that a model can answer, and the highest that a bound on the latency allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from suite.serve.scenarios import Load

WITHIN = 1.05  # the highest rate is found when the lowest that failed is at most so many times it
_TRIES = 24  # loads of a search
_ALONE = 0.05  # of the rate at which requests follow one another, where they hardly meet


class Highest(NamedTuple):
    """The highest rate that kept the bound, and the lowest that did not; None where there was none. All `loads`."""

    kept: float | None
    broken: float | None
    loads: list[Load]


def offline(load: Callable[[float], Load], first: float) -> Load:
    """The offline scenario with as many samples as last for its duration, which depends on what it finds."""
    found = load(first)
    while not found.valid and not found.failed and found.reached and found.rate and found.reached > found.rate:
        found = load(found.reached)
    return found


def stream(load: Callable[[float | None], Load], seconds: float) -> Load:
    """A stream with as many queries as last for `seconds`, which depends on how long one takes."""
    found = load(None)
    for _ in range(_TRIES):
        if found.valid or found.shed or found.failed or found.seconds >= seconds:
            break
        found = load(found.seconds / found.queries)
    return found


def highest(load: Callable[[float], Load], first: float, alone: float) -> Highest:
    """By bisection of the logarithm, from `first` a second on: doubled or halved until the bound lies between.

    `alone` is the rate of requests that follow one another. Far below it none waits for another, and a lower rate would
    keep no bound that this one breaks: it would only take longer. A request that failed says nothing of the rate, and
    ends the search.
    """
    kept: float | None = None
    broken: float | None = None
    rate, loads = first, list[Load]()
    while len(loads) < _TRIES and not (kept and broken and broken / kept <= WITHIN):
        if kept is None and broken and rate < _ALONE * alone:
            break
        loads.append(load(rate))
        if loads[-1].failed:
            break
        if loads[-1].valid:
            kept = rate
        else:
            broken = rate
        rate = (kept * broken) ** 0.5 if kept and broken else rate * 2 if kept else rate / 2
    return Highest(kept, broken, loads)
