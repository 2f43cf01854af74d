"""How fast Python is on a machine, to scale the host's work between the calls of a step, which is in no brick."""

from __future__ import annotations

import time
from functools import cache

CALLS = 1000  # of a function: a unit of work
UNITS = 50


@cache
def microseconds() -> float:
    """Microseconds of CPU time that a unit of work takes, the least of `UNITS` tries."""

    def called(value: int, *, more: int = 1) -> int:
        return value + more

    least = float("inf")
    for _ in range(UNITS):
        began = time.thread_time()
        for each in range(CALLS):
            called(each, more=each)
        least = min(least, time.thread_time() - began)
    return 1e6 * least


def in_units(seconds: float) -> float:
    """Seconds on this machine, in units of work."""
    return 1e6 * seconds / microseconds()
