"""Reads GroupLens' files of ratings, in any of its layouts.

| data set | file | columns |
|---|---|---|
| MovieLens 100K | `ml-100k/u.data` | user, item, rating, time; tabs |
| MovieLens 1M | `ml-1m/ratings.dat` | the same, `::` between |
| MovieLens 20M | `ml-20m/ratings.csv` | the same, commas, a line of names above |
| MovieLens latest-small | `ml-latest-small/ratings.csv` | as 20M |
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tasks.recommendation.protocol import Interactions

_SEPARATORS = {".data": "\t", ".dat": ":", ".csv": ","}
_DTYPE = [("user", "<i8"), ("item", "<i8"), ("rating", "<f8"), ("time", "<i8")]


def read_ratings(path: Path) -> Interactions:
    """The ratings of a file, in its order; each counts as an interaction, whatever its stars."""
    with path.open(encoding="utf-8") as file:
        lines = (line.replace("::", ":") for line in file)
        table = np.loadtxt(lines, _DTYPE, delimiter=_SEPARATORS[path.suffix], skiprows=int(path.suffix == ".csv"))
    return Interactions(str(path), table["user"], table["item"], table["time"])
