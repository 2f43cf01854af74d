"""The samples to the target that others published for the same model in their own code: for comparison, not a limit.

They stand in conf/rcp/published.yaml, apart from the suite's own points, and are shown where there are none of those.
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
    """The runs at one batch size: what each took, in the source's unit; None where it missed the target."""

    global_batch_size: int
    reached: tuple[int | None, ...]


class Published(Values):
    """What was published of a benchmark. `recipe` is as in `suite.rules.reference.Reference`.

    `counted_in` is the source's unit, such as epochs, and `each` the number of samples in one.
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
    """The file of what was published, for all benchmarks."""
    return folder.CONF / "rcp" / "published.yaml"


def stored() -> list[Published]:
    """What was published of each benchmark."""
    return [checked(Published, each, "conf/rcp/published.yaml:") for each in folder.values(path())]


def load(benchmark: Benchmark) -> Published | None:
    """What was published of a benchmark as it is now; None if nothing was, or only of another recipe."""
    found = (each for each in stored() if (each.benchmark, each.recipe) == (benchmark.name, recipe(benchmark)))
    return next(found, None)


def compared(benchmark: Benchmark, batch_size: int, mean: float) -> tuple[str, str, str] | None:
    """What was published at the nearest batch size, how a submission's mean compares, and the source.

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
