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
    keep no bound that this one breaks: it would only take longer. The lowest that did not keep it is tried once more:
    what disturbed it once does not end the search. A request that failed does, for it says nothing of the rate.
    """
    kept: float | None = None
    late: list[float] = []  # rates that did not keep it, the lowest last
    rate, loads = first, list[Load]()
    while len(loads) < _TRIES:
        if kept is None and late and rate < _ALONE * alone:
            break
        again = rate in late
        loads.append(load(rate))
        if loads[-1].failed or (again and not loads[-1].valid):
            break
        if not loads[-1].valid:
            late.append(rate)
        else:
            kept = rate
            if again:
                late.pop()
        if kept and late:
            rate = late[-1] if late[-1] / kept <= WITHIN else (kept * late[-1]) ** 0.5
        else:
            rate = rate * 2 if kept else rate / 2
    return Highest(kept, late[-1] if late else None, loads)
