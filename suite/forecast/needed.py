"""How many samples a run needs to its target: drawn from the runs of the reference convergence points.

Where there are none, from those that others published of the same model (`suite.rules.published`), marked as such.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from mlperf_logging.mllog.constants import GLOBAL_BATCH_SIZE

from suite import config
from suite.config.models import Benchmark
from suite.errors import UserError
from suite.rules import convergence, published


@dataclass(frozen=True)
class Drawn:
    """Runs as drawn: `samples` of the one that reaches the target, `failed` runs before it that did not.

    `lost` is the share of runs that do not, 0 to 1.
    """

    samples: np.ndarray
    failed: np.ndarray
    lost: float

    @property
    def said(self) -> str:
        """How many in 100 do not reach it; empty where none does."""
        of_100 = f"{100 * self.lost:.0f}"
        return "" if of_100 == "0" else f"{of_100} in 100 runs do not reach the target: another follows each"


@dataclass(frozen=True)
class Took:
    """What runs at a batch size took to the target, in samples; None for one that did not reach it."""

    batch: int
    samples: tuple[int | None, ...]

    @property
    def reached(self) -> list[int]:
        """What those took that reached it."""
        return [each for each in self.samples if each is not None]


@dataclass(frozen=True)
class Needed:
    """What the reference needed at `batch`: the runs of the points around it, `share` of the way from `low` to `high`.

    `note` says where a point does not stand for its own batch size alone. `published` is the source of runs that are
    not the reference's; empty where they are.
    """

    benchmark: Benchmark
    batch: int | None
    low: Took
    high: Took
    share: float
    note: str
    published: str = ""

    @property
    def said(self) -> str:
        """Of how many runs it is."""
        points = {self.low.batch: self.low, self.high.batch: self.high}.values()
        reached, runs = (sum(map(len, each)) for each in zip(*((p.reached, p.samples) for p in points), strict=True))
        if not self.published:
            return f"{reached} of {runs} reference runs reached the target"
        alone = ": one tells nothing of how runs differ" if runs == 1 else ""
        return f"{reached} of {runs} published runs of other code reached the target{alone}"

    def draw(self, count: int, rng: np.random.Generator) -> Drawn:
        """So many new runs.

        A new run falls with the same chance between any two neighbours of the n that were seen, and beyond either end
        (B. M. Hill 1968, J. Am. Stat. Assoc. 63, assumption A_n): so few points make wide intervals. Beyond an end lies
        twice the mean distance of neighbours: with once, five runs make an interval that holds less than it should.
        Runs end at evaluations: a new one at the nearest, those seen at their last, those of other code at the next of
        ours; one that would end beyond the budget ends with it, and without the target. That was paid for, and another
        run follows.
        """
        uniform, seen = rng.uniform(size=count), np.ceil if self.published else np.floor
        low, high = (
            _quantile(on_grid(self.benchmark, np.array(point.reached, float), seen), uniform)
            for point in (self.low, self.high)
        )
        lost = [1 - len(point.reached) / len(point.samples) for point in (self.low, self.high)]
        samples = on_grid(self.benchmark, low + self.share * (high - low))
        within = samples[samples <= self.benchmark.budget_samples]
        chance = (1 - lost[0] - self.share * (lost[1] - lost[0])) * len(within) / count
        return Drawn(np.resize(within, count), rng.geometric(chance, count) - 1, 1 - chance)


def needed(benchmark: Benchmark, batch: int | None = None) -> Needed:
    """What the benchmark, as conf/ has it, needs at a batch size, its own where none is given.

    Raises UserError where no point tells.
    """
    usual = config.benchmark(benchmark.task, benchmark.scale)
    points, source = _points(usual)
    batch = batch or usual.hyperparameters.get(GLOBAL_BATCH_SIZE)
    if not points:
        raise UserError(
            f"{usual.name} has no reference convergence points: nothing tells how many samples it takes to the target; "
            "make some of runs of the reference: python -m suite.rcp FOLDER"
        )
    sizes = ", ".join(str(point.batch) for point in points)
    if batch is None:
        return Needed(usual, None, points[0], points[0], 0.0, "", source)
    if batch > points[-1].batch:
        kind = "published" if source else "reference convergence"
        raise UserError(
            f"batch={batch}: {usual.name} has {kind} points at batch size {sizes}, and none tells how many samples a "
            "larger one takes. Make runs of the reference at it, then python -m suite.rcp FOLDER"
        )
    if batch <= points[0].batch:
        first = points[0]
        note = f"samples are those of batch size {first.batch}: a smaller one takes no more"
        return Needed(usual, batch, first, first, 0.0, note if batch < first.batch else "", source)
    low, high = next(pair for pair in pairwise(points) if pair[1].batch >= batch)
    if batch == high.batch:
        return Needed(usual, batch, high, high, 0.0, "", source)
    between = (batch - low.batch) / (high.batch - low.batch)
    note = f"samples are interpolated between batch sizes {low.batch} and {high.batch}"
    return Needed(usual, batch, low, high, between, note, source)


def _points(benchmark: Benchmark) -> tuple[list[Took], str]:
    """The points by batch size, and their source where they are published ones."""
    own = convergence.counting(benchmark)
    told = None if own else published.load(benchmark)
    if told:
        made = [Took(each.global_batch_size, told.samples(each)) for each in told.points]
    else:
        made = [Took(each.global_batch_size, tuple(run.samples for run in each.runs)) for each in own]
    return sorted(made, key=lambda point: point.batch), told.source if told else ""


def on_grid(benchmark: Benchmark, samples: np.ndarray, rounded: np.ufunc = np.rint) -> np.ndarray:
    """Where the evaluation nearest to so many samples is due, or the one that `rounded` gives; the last at the budget.

    More samples than that have it where it would be.
    """
    first, every, budget = benchmark.evaluation.first, benchmark.evaluation.every, benchmark.budget_samples
    due = first + rounded(np.maximum(samples - first, 0) / every) * every
    return np.asarray(np.where(samples > budget, np.maximum(due, budget), np.minimum(due, budget)), float)


def evaluations(benchmark: Benchmark, samples: np.ndarray, step: int = 1) -> np.ndarray:
    """How many evaluations a run has that ends with the one at `samples`, at the first whole step after it was due.

    One that is due in the last step, of `step` samples, is that at the end.
    """
    first, every, budget = benchmark.evaluation.first, benchmark.evaluation.every, benchmark.budget_samples
    last = budget - (budget - first) % every
    at_the_end = (samples >= budget) & (-(-last // step) < -(-budget // step))
    return np.asarray(1 + np.maximum(samples - first, 0) // every + at_the_end)


def _quantile(reached: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    values = np.sort(reached)
    gap = 2 * (values[-1] - values[0]) / max(len(values) - 1, 1)
    known = np.concatenate([[values[0] - gap], values, [values[-1] + gap]])
    return np.asarray(np.interp(uniform * (len(values) + 1), np.arange(len(known)), known))
