"""What others published of the samples that the same model takes to the target, with code of their own: no yardstick.

It stands in conf/rcp/published.yaml, apart from the points of the suite's own runs, and counts where there are none.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from suite.config import folder
from suite.config.models import Benchmark
from suite.config.values import Values, checked
from suite.record.summary import format_count
from suite.rules.reference import recipe


class Runs(Values):
    """The runs at one batch size: what each took, in what the source counts in; None where it missed the target."""

    global_batch_size: int
    reached: tuple[int | None, ...]


class Published(Values):
    """What was published of a benchmark. `recipe` is as in `suite.rules.reference.Reference`.

    `each` is the samples of one of `counted_in`, such as an epoch.
    """

    benchmark: str
    recipe: str
    source: str
    counted_in: str
    each: int
    points: tuple[Runs, ...]

    def samples(self, point: Runs) -> tuple[int | None, ...]:
        """The samples to the target of each run of a point."""
        return tuple(None if count is None else count * self.each for count in point.reached)


def path() -> Path:
    """Where it stands, of all benchmarks."""
    return folder.CONF / "rcp" / "published.yaml"


def stored() -> list[Published]:
    """All of it."""
    return [checked(Published, each, "conf/rcp/published.yaml:") for each in folder.values(path())]


def load(benchmark: Benchmark) -> Published | None:
    """What was published of a benchmark as it is now; None if nothing was, or of another recipe."""
    found = (each for each in stored() if (each.benchmark, each.recipe) == (benchmark.name, recipe(benchmark)))
    return next(found, None)


def compared(benchmark: Benchmark, batch_size: int, mean: float) -> tuple[str, str, str] | None:
    """What was published at the nearest batch size, how a submission's mean lies to it, and the source.

    None where nothing was published.
    """
    if not (told := load(benchmark)):
        return None
    point = min(told.points, key=lambda point: abs(point.global_batch_size - batch_size))
    theirs = [each for each in told.samples(point) if each is not None]
    low, high = (end // told.each for end in (min(theirs), max(theirs)))
    counted = f"{low} to {high} {told.counted_in}" if low < high else f"{low} {told.counted_in}"
    runs = format_count(len(point.reached), "run")
    return (
        f"about {np.mean(theirs):,.0f} samples, published of {runs} of other code at batch size "
        f"{point.global_batch_size} ({counted})",
        f"{mean / np.mean(theirs):.1%} of that: {mean:,.0f}",
        told.source,
    )
