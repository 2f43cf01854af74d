"""Reading GroupLens' files of ratings, whichever of its layouts they have.

| data set | file | columns |
|---|---|---|
| MovieLens 100K | `ml-100k/u.data` | user, item, rating, time; tabs |
| MovieLens 1M | `ml-1m/ratings.dat` | the same, `::` between |
| MovieLens 20M | `ml-20m/ratings.csv` | the same, commas, a line of names above |
| MovieLens latest-small | `ml-latest-small/ratings.csv` | as 20M |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from suite.errors import UserError
from tasks.recommendation.protocol import Interactions

COLUMNS = "userId,movieId,rating,timestamp"
_DTYPE = [("user", "<i8"), ("item", "<i8"), ("rating", "<f8"), ("time", "<i8")]
_NUMBER = r"-?\d{1,18}"


def read_ratings(path: Path) -> Interactions:
    """The ratings of a file, in its order; each counts as an interaction, whatever its stars.

    Raises UserError with the line that is not a rating, or when the columns are not GroupLens' own.
    """
    with path.open(encoding="utf-8", errors="replace") as file:
        first = file.readline().rstrip("\n")
        header = first == COLUMNS
        separator = "," if header else "::" if "::" in first else "\t"
        if not header and separator not in first:
            raise _fault(path, 1, first, f"the columns {COLUMNS}, or ratings separated by tabs or by ::")
        lines = file if header else chain([first], file)
        table = np.loadtxt(
            _ratings(path, lines, 2 if header else 1, separator), dtype=_DTYPE, delimiter=separator[0], ndmin=1
        )
    return Interactions(str(path), table["user"], table["item"], table["time"])


def _ratings(path: Path, lines: Iterable[str], number: int, separator: str) -> Iterator[str]:
    """The lines, checked, with a separator of one character; `number` is that of the first."""
    rating = re.compile(separator.join([_NUMBER, _NUMBER, _NUMBER + r"(\.\d+)?", _NUMBER]), re.ASCII)
    at = number - 1
    for at, line in enumerate(lines, number):
        if not rating.fullmatch(line.rstrip("\n")):
            raise _fault(path, at, line.rstrip("\n"), f"user, item, rating and time, separated by {separator!r}")
        yield line.replace("::", ":")
    if at < number:
        raise _fault(path, number, "", "a rating")


def _fault(path: Path, number: int, found: str, expected: str) -> UserError:
    return UserError(
        f"{path}, line {number}: found {found[:60]!r}, expected {expected}. Bring the file as GroupLens published it."
    )
