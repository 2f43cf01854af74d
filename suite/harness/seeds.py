"""Seeds: one fixes a run's data order, initialisation and augmentation; each run has its own."""

from __future__ import annotations

import secrets

from suite.errors import UserError

LIMIT = 2**31
MAX_RUNS = 1000  # of one command


def draw(runs: int, first: int | None) -> tuple[int, ...]:
    """`runs` distinct seeds: `first`, `first + 1`, ..., or from the system's entropy when `first` is None.

    Raises UserError for a number of runs, or a seed, out of its range.
    """
    if not 1 <= runs <= MAX_RUNS:
        raise UserError(f"runs={runs} is not from 1 to {MAX_RUNS}; for more runs give several commands")
    if first is None:
        seeds: set[int] = set()
        while len(seeds) < runs:
            seeds.add(secrets.randbelow(LIMIT))
        return tuple(seeds)
    if not 0 <= first <= LIMIT - runs:
        why = f", the last from which {runs} runs can count on" if runs > 1 else ""
        raise UserError(f"seed={first} is not from 0 to {LIMIT - runs}{why}")
    return tuple(range(first, first + runs))
