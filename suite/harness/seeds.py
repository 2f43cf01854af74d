"""Seeds: one fixes a run's data order, initialisation and augmentation; each run has its own."""

from __future__ import annotations

import secrets

from suite.errors import UserError

LIMIT = 2**31


def draw(runs: int, first: int | None) -> tuple[int, ...]:
    """`runs` distinct seeds: `first`, `first + 1`, ..., or from the system's entropy when `first` is None."""
    if first is None:
        seeds: set[int] = set()
        while len(seeds) < runs:
            seeds.add(secrets.randbelow(LIMIT))
        return tuple(seeds)
    if not 0 <= first <= LIMIT - runs:
        raise UserError(f"seed={first} is not from 0 to {LIMIT - runs}")
    return tuple(range(first, first + runs))
