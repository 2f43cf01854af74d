"""Reads the ratings of MovieLens 100K, `ml-100k/u.data`: user, item, rating and time, separated by tabs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tasks.recommendation.protocol import Interactions


def read_ratings(path: Path) -> Interactions:
    """The ratings of a file, in its order; each counts as an interaction, whatever its stars."""
    users, items, _, times = np.loadtxt(path, np.int64, delimiter="\t", unpack=True)
    return Interactions(str(path), users, items, times)
