"""Find the rates that scenarios need: the most a model can answer, and the most that a bound on the latency allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from suite.serve.scenarios import Load

WITHIN = 1.05  # the search ends when the lowest rate that failed is at most this many times the highest that passed
_TRIES = 24  # loads of a search
_ALONE = 0.05  # share of the rate of one request after another, below which requests hardly meet


class Highest(NamedTuple):
    """The highest rate that kept the bound, and the lowest that did not; None without one. `loads` are all tried."""

    kept: float | None
    broken: float | None
    loads: list[Load]


def offline(load: Callable[[float], Load], first: float) -> Load:
    """Run the offline scenario with enough samples to last its duration; how many depends on the rate it reaches."""
    found = load(first)
    while not found.valid and not found.failed and found.reached and found.rate and found.reached > found.rate:
        found = load(found.reached)
    return found


def stream(load: Callable[[float | None], Load], seconds: float) -> Load:
    """Run a stream with enough queries to last `seconds`; how many depends on how long one takes."""
    found = load(None)
    for _ in range(_TRIES):
        if found.valid or found.shed or found.failed or found.seconds >= seconds:
            break
        found = load(found.seconds / found.queries)
    return found


def highest(load: Callable[[float], Load], first: float, alone: float) -> Highest:
    """Find the highest rate that keeps the bound, by bisecting its logarithm.

    It starts at `first` a second, and doubles or halves until the bound lies between two rates. `alone` is the rate of
    requests made one after another: far below it none waits for another, so if such a rate breaks the bound, a lower
    one does too. The lowest rate that broke it is tried once more, so that one disturbance does not end the search. A
    failed request does, because it says nothing about the rate.
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
