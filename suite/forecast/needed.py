"""How many samples a run needs to its target: drawn from the runs of the reference convergence points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from mlperf_logging.mllog.constants import GLOBAL_BATCH_SIZE

from suite import config
from suite.config.models import Benchmark
from suite.errors import UserError
from suite.rules import convergence
from suite.rules.reference import Point


@dataclass(frozen=True)
class Drawn:
    """Runs as drawn: `samples` of the one that reaches the target, `failed` runs before it that did not."""

    samples: np.ndarray
    failed: np.ndarray


@dataclass(frozen=True)
class Needed:
    """What the reference needed at `batch`: the runs of the points around it, `share` of the way from `low` to `high`.

    `note` says where a point does not stand for its own batch size alone.
    """

    benchmark: Benchmark
    batch: int | None
    low: Point
    high: Point
    share: float
    note: str

    @property
    def said(self) -> str:
        """Of how many runs it is."""
        runs = [
            run
            for point in {self.low.global_batch_size: self.low, self.high.global_batch_size: self.high}.values()
            for run in point.runs
        ]
        reached = sum(run.samples is not None for run in runs)
        return f"{reached} of {len(runs)} reference runs reached the target"

    def draw(self, count: int, rng: np.random.Generator) -> Drawn:
        """So many new runs.

        A new run falls with the same chance between any two neighbours of the n that were seen, and beyond either end
        (B. M. Hill 1968, J. Am. Stat. Assoc. 63, assumption A_n): so few points make wide intervals. Beyond an end lies
        the mean distance of neighbours. A run that ends without the target was paid for, and another follows.
        """
        uniform = rng.uniform(size=count)
        low, high = (_quantile(convergence.reached(point), uniform) for point in (self.low, self.high))
        lost = [1 - len(convergence.reached(point)) / len(point.runs) for point in (self.low, self.high)]
        chance = lost[0] + self.share * (lost[1] - lost[0])
        samples = on_grid(self.benchmark, low + self.share * (high - low))
        return Drawn(samples, rng.geometric(1 - chance, count) - 1)


def needed(benchmark: Benchmark, batch: int | None = None) -> Needed:
    """What the benchmark, as conf/ has it, needs at a batch size, its own where none is given.

    Raises UserError where no point tells.
    """
    usual = config.benchmark(benchmark.task, benchmark.scale)
    points = sorted(convergence.counting(usual), key=lambda point: point.global_batch_size)
    batch = batch or usual.hyperparameters.get(GLOBAL_BATCH_SIZE)
    if not points:
        raise UserError(
            f"{usual.name} has no reference convergence points: nothing tells how many samples it takes to the target; "
            "make some of runs of the reference: python -m suite.rcp FOLDER"
        )
    sizes = ", ".join(str(point.global_batch_size) for point in points)
    if batch is None:
        return Needed(usual, None, points[0], points[0], 0.0, "")
    if batch > points[-1].global_batch_size:
        raise UserError(
            f"batch={batch}: {usual.name} has reference convergence points at batch size {sizes}, and none tells how "
            "many samples a larger one takes. Make runs of the reference at it, then python -m suite.rcp FOLDER"
        )
    if batch <= points[0].global_batch_size:
        first = points[0]
        note = (
            f"samples are those of batch size {sizes}: a smaller one takes no more"
            if batch < int(first.global_batch_size)
            else ""
        )
        return Needed(usual, batch, first, first, 0.0, note)
    low, high = next(pair for pair in pairwise(points) if pair[1].global_batch_size >= batch)
    between = (batch - low.global_batch_size) / (high.global_batch_size - low.global_batch_size)
    note = (
        ""
        if between == 1
        else (f"samples are interpolated between batch sizes {low.global_batch_size} and {high.global_batch_size}")
    )
    return Needed(usual, batch, low, high, between, note)


def on_grid(benchmark: Benchmark, samples: np.ndarray) -> np.ndarray:
    """The first evaluation at or after so many samples; that at the budget's end for more."""
    first, every = benchmark.evaluation.first, benchmark.evaluation.every
    blocks = np.ceil(np.maximum(samples - first, 0) / every)
    return np.asarray(np.minimum(first + blocks * every, benchmark.budget_samples))


def evaluations(benchmark: Benchmark, samples: np.ndarray) -> np.ndarray:
    """How many evaluations a run has that ends with the one at `samples`."""
    first, every = benchmark.evaluation.first, benchmark.evaluation.every
    return np.asarray(1 + np.ceil(np.maximum(samples - first, 0) / every))


def _quantile(reached: Sequence[int], uniform: np.ndarray) -> np.ndarray:
    values = np.sort(np.asarray(reached, float))
    gap = (values[-1] - values[0]) / max(len(values) - 1, 1)
    known = np.concatenate([[values[0] - gap], values, [values[-1] + gap]])
    return np.asarray(np.interp(uniform * (len(values) + 1), np.arange(len(known)), known))
