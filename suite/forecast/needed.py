"""How many samples a run needs to its target, drawn from the runs of the reference convergence points.

If there are none, they are drawn from points that others published of the same model (`suite.rules.published`), and
marked as such.
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
    """Drawn runs: the `samples` of each that reaches the target, and how many `failed` before it.

    `lost` is the share of runs that fail, 0 to 1.
    """

    samples: np.ndarray
    failed: np.ndarray
    lost: float

    @property
    def said(self) -> str:
        """How many runs in 100 do not reach the target; empty if that rounds to 0."""
        of_100 = f"{100 * self.lost:.0f}"
        return "" if of_100 == "0" else f"{of_100} in 100 runs do not reach the target: another follows each"


@dataclass(frozen=True)
class Took:
    """Samples to the target of the runs at a batch size; None for a run that did not reach it."""

    batch: int
    samples: tuple[int | None, ...]

    @property
    def reached(self) -> list[int]:
        """The samples of the runs that reached the target."""
        return [each for each in self.samples if each is not None]


@dataclass(frozen=True)
class Needed:
    """What the reference needed at `batch`, which lies `share` of the way from the point `low` to the point `high`.

    `note` tells if the samples are of another batch size or interpolated. `published` is the source of runs that are
    not the reference's, else empty.
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
        """How many runs there were, and how many reached the target."""
        points = {self.low.batch: self.low, self.high.batch: self.high}.values()
        reached, runs = (sum(map(len, each)) for each in zip(*((p.reached, p.samples) for p in points), strict=True))
        if not self.published:
            return f"{reached} of {runs} reference runs reached the target"
        alone = ": one tells nothing of how runs differ" if runs == 1 else ""
        return f"{reached} of {runs} published runs of other code reached the target{alone}"

    def draw(self, count: int, rng: np.random.Generator) -> Drawn:
        """Draw `count` new runs.

        A new run falls with the same chance between any two neighbours of the n runs seen, or beyond either end (B. M.
        Hill 1968, J. Am. Stat. Assoc. 63, assumption A_n), so few runs make a wide interval. Beyond an end it lies at
        most twice the mean distance of neighbours away: with once, the interval of five runs holds less than it should.
        Runs end at evaluations: a new run at the nearest, a run seen at its last, a run of other code at our next one.
        A run that would end beyond the budget ends with it, without the target; it is paid for, and another follows.
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
    """What the benchmark, as conf/ has it, needs at a batch size; by default at its own.

    Raises UserError if no point tells.
    """
    usual = config.benchmark(benchmark.task, benchmark.scale)
    points, source = _points(usual)
    batch = batch or usual.hyperparameters.get(GLOBAL_BATCH_SIZE)
    if not points:
        stored = convergence.too_few(usual) or "no reference convergence points"
        raise UserError(
            f"{usual.name} has {stored}: nothing tells how many samples it takes to the target; "
            "make runs of the reference, then python -m suite.rcp FOLDER"
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
    """The points in order of batch size, and their source if they are published ones, else an empty text."""
    own = convergence.counting(benchmark)
    told = None if own else published.load(benchmark)
    if told:
        made = [Took(each.global_batch_size, told.samples(each)) for each in told.points]
    else:
        made = [Took(each.global_batch_size, tuple(run.samples for run in each.runs)) for each in own]
    return sorted(made, key=lambda point: point.batch), told.source if told else ""


def on_grid(benchmark: Benchmark, samples: np.ndarray, rounded: np.ufunc = np.rint) -> np.ndarray:
    """The samples at which the evaluation nearest to `samples`, or the one that `rounded` picks, is due.

    The last is at the budget; for more samples than the budget it is where it would be due without one.
    """
    first, every, budget = benchmark.evaluation.first, benchmark.evaluation.every, benchmark.budget_samples
    due = first + rounded(np.maximum(samples - first, 0) / every) * every
    return np.asarray(np.where(samples > budget, np.maximum(due, budget), np.minimum(due, budget)), float)


def evaluations(benchmark: Benchmark, samples: np.ndarray, step: int = 1) -> np.ndarray:
    """How many evaluations a run has that ends with the one due at `samples`.

    Each is made at the first whole step, of `step` samples, after it was due. One that is due in the budget's last step
    coincides with the one at the end.
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
