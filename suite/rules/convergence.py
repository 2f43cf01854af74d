"""Checks of the chapter "Convergence": a submission must not need fewer samples than the reference does.

The test is MLPerf's (mlcommons/training_policies, training_rules.adoc, "Reference Convergence Points" and the appendix
"RCP Examples"): a one-sided pooled t-test of the olympic means with the reference's deviation for both. The deviation
is taken without the fastest and the slowest run, as that text does: its example gives the minima 15.21 and 19.93.
(MLCommons' rcp_checker takes it with them, and gives 14.78 and 19.82.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np
from mlperf_logging.mllog import constants as keys

from suite.config.models import Benchmark
from suite.record.evidence import LOG
from suite.record.mllog import samples_of
from suite.record.parsing import number
from suite.record.scoring import DROPS_FROM, olympic_mean
from suite.record.summary import format_count
from suite.rules import published, reference
from suite.rules.finding import Finding, Severity
from suite.rules.hyperparameters import batch_size
from suite.rules.quality import converged
from suite.rules.reading import RESULT, RUN, Evidence
from suite.rules.reference import Curve, Point

ALPHA = 0.05
_LEAST_RUNS = 4  # of a point: without the two dropped, two are left for a deviation


@dataclass(frozen=True)
class Population:
    """What the reference needs at a batch size: mean and deviation of the samples to the target, of `count` runs."""

    batch_size: int
    mean: float
    deviation: float
    count: int


@dataclass(frozen=True)
class Convergence:
    """The test of a result. All figures are samples to the target, unless said otherwise.

    `mean` is the submission's olympic mean of `count` runs. `reference` is the point that it is compared with: that of
    its batch size, an interpolated one, or the one of the smallest batch size. `minimum` is the least mean that still
    passes. `p_value` is the chance of a mean as small as this one if the submission converges as the reference does.
    `interval` is the two-sided 90 % interval of the submission's mean: the test is passed if it reaches up to the
    reference's mean. The score is multiplied by `normalisation`, which is above 1 for a submission that passes below
    the reference's mean. `curves` are those of the reference's runs at the nearest batch size (see
    `plots.charts.band`).

    The outcome is `missing` if the batch size is above `largest`, the largest that has a point (None where there is no
    point at all). Figures that need a point are then None.
    """

    outcome: Literal["pass", "fail", "missing"]
    batch_size: int
    mean: float
    count: int
    reference: Population | None = None
    minimum: float | None = None
    p_value: float | None = None
    interval: tuple[float, float] | None = None
    normalisation: float = 1.0
    curves: tuple[Curve, ...] = ()
    largest: int | None = None

    @property
    def unheld(self) -> str:
        """Why the result was not compared with the reference; empty if it was."""
        if self.outcome != "missing":
            return ""
        if self.largest is None:
            return "not held to the reference, of which there are no convergence points here"
        return f"not held to the reference, whose points end at batch size {self.largest:,}, below {self.batch_size:,}"


def population(batch_size: int, samples: Sequence[float | None], resolution: float, asked: int) -> Population:
    """The olympic mean and deviation of the reference's `samples` to the target (at least four numbers).

    None stands for a run that did not reach the target. It counts as the slowest, which is dropped; further ones are
    left out too.

    If `asked` runs, as many as MLPerf asks for, reached the target, the deviation is that of the runs kept, as in
    MLPerf. With fewer that is too small (with five normal ones it refuses one in six results of five that are as good),
    so it is that of all runs that reached the target.

    Samples to the target are known to one evaluation period, `resolution`: the deviation is at least that of this
    rounding, resolution / sqrt(12). Without that, reference runs that all end at one evaluation would refuse everybody.
    """
    reached = sorted(each for each in samples if each is not None)
    kept = reached[1:] if len(reached) < len(samples) else reached[1:-1]
    deviation = float(np.std(kept) if len(reached) >= asked else np.std(reached, ddof=1))
    return Population(batch_size, float(np.mean(kept)), max(deviation, resolution / math.sqrt(12)), len(kept))


def fastest(populations: Sequence[Population]) -> list[Population]:
    """The points that bound convergence from below, in order of batch size.

    A point is left out if its batch size is below that of the fastest point, or if it is slower than the interpolation
    of two others: more samples per step never make training need fewer samples.
    """
    first = min(populations, key=lambda each: (each.mean, each.batch_size))
    hull: list[Population] = []
    for each in sorted(populations, key=lambda each: each.batch_size):
        while len(hull) > 1 and hull[-1].mean > interpolated(hull[-2], each, hull[-1].batch_size).mean:
            hull.pop()
        if each.batch_size >= first.batch_size:
            hull.append(each)
    return hull


def interpolated(low: Population, high: Population, batch_size: int) -> Population:
    """The point between two others. Its count is the smaller of theirs plus the two dropped runs, as in MLPerf."""
    share = (batch_size - low.batch_size) / (high.batch_size - low.batch_size)
    mean = low.mean + share * (high.mean - low.mean)
    deviation = low.deviation + share * (high.deviation - low.deviation)
    return Population(batch_size, mean, deviation, min(low.count, high.count) + 2)


def at(populations: Sequence[Population], batch_size: int) -> Population | None:
    """The point that a submission of `batch_size` is compared with; None above the largest batch size of a point."""
    bounds = fastest(populations) if populations else []
    if not bounds or batch_size > bounds[-1].batch_size:
        return None
    if batch_size <= bounds[0].batch_size:
        return bounds[0]
    low, high = next(pair for pair in pairwise(bounds) if pair[1].batch_size >= batch_size)
    return high if high.batch_size == batch_size else interpolated(low, high, batch_size)


def margin(held_to: Population, count: int) -> float:
    """How far the olympic mean of `count` kept runs may lie below the reference's mean."""
    from scipy.special import stdtrit  # imported here: it takes a quarter of a second

    quantile = float(stdtrit(held_to.count + count - 2, 1 - ALPHA))
    return quantile * _error(held_to, count)


def t_test(mean: float, count: int, batch_size: int, populations: Sequence[Population]) -> Convergence:
    """Test a submission's olympic mean of `count` kept runs against the reference's points."""
    held_to = at(populations, batch_size)
    if held_to is None:
        largest = max((each.batch_size for each in populations), default=None)
        return Convergence("missing", batch_size, mean, count, largest=largest)
    from scipy.special import stdtr  # as above

    allowed = margin(held_to, count)
    passed = mean >= held_to.mean - allowed
    return Convergence(
        outcome="pass" if passed else "fail",
        batch_size=batch_size,
        mean=mean,
        count=count,
        reference=held_to,
        minimum=held_to.mean - allowed,
        p_value=float(stdtr(held_to.count + count - 2, (mean - held_to.mean) / _error(held_to, count))),
        interval=(mean - allowed, mean + allowed),
        normalisation=max(held_to.mean / mean, 1.0) if passed else 1.0,
    )


def _error(held_to: Population, count: int) -> float:
    return held_to.deviation * math.sqrt(1 / held_to.count + 1 / count)


def curve(run: Evidence) -> Curve:
    """The quality of each evaluation of a run, over samples."""
    found = ((samples_of(each), number(each.value)) for each in run.timeline.evaluations)
    return tuple((samples, quality) for samples, quality in found if samples is not None and quality is not None)


def convergence(runs: Sequence[Evidence]) -> Convergence | None:
    """The test of a result's runs; None where it does not apply.

    It does not apply in the open division, to a pilot on a part of the data, to fewer than three runs, which leave
    nothing to drop, or to a result without a score.
    """
    benchmark = runs[0].benchmark
    if benchmark is None or len(runs) < DROPS_FROM or runs[0].in_open or benchmark.dataset.subset is not None:
        return None
    samples = [samples_of(run.timeline.run_stop) if converged(run) and run.timeline.run_stop else None for run in runs]
    mean = olympic_mean([float(each) if each else None for each in samples])
    if mean is None:
        return None
    points = counting(benchmark)
    populations = [of_point(point, benchmark) for point in points]
    made = t_test(mean, len(runs) - 2, batch_size(runs[0], benchmark), populations)
    nearest = min(points, key=lambda point: abs(point.global_batch_size - made.batch_size), default=None)
    return replace(made, curves=tuple(run.curve for run in nearest.runs) if nearest else ())


def runs_needed(benchmark: Benchmark) -> int:
    """The least number of runs with which a point counts. Fewer than MLPerf asks for widen the margin."""
    return max(benchmark.runs, _LEAST_RUNS)


def runs_asked(benchmark: Benchmark) -> int:
    """The number of runs of a point that MLPerf asks for: twice a result's."""
    return 2 * benchmark.runs


def counting(benchmark: Benchmark) -> list[Point]:
    """The stored points with enough runs that reached the target."""
    return [point for point in reference.load(benchmark).points if len(reached(point)) >= runs_needed(benchmark)]


def too_few(benchmark: Benchmark) -> str:
    """The stored points of a benchmark of which none counts, in words; empty if none are stored."""
    runs = [
        f"{format_count(len(reached(point)), 'run')} at batch size {point.global_batch_size}"
        for point in reference.load(benchmark).points
    ]
    counts = f"that reached the target, which count from {runs_needed(benchmark)} runs on"
    return f"reference convergence points of {', '.join(runs)} {counts}" if runs else ""


def reached(point: Point) -> list[int]:
    """The samples to the target of a point's runs that reached it."""
    return [run.samples for run in point.runs if run.samples is not None]


def of_point(point: Point, benchmark: Benchmark) -> Population:
    """The population of a stored point of a benchmark."""
    samples = [run.samples for run in point.runs]
    return population(point.global_batch_size, samples, benchmark.evaluation.every, runs_asked(benchmark))


@RUN.rule("convergence.1")
def target_reached(run: Evidence) -> Iterator[Finding]:
    """A note for a run that did not converge, which is a result too."""
    stop = run.timeline.run_stop
    if stop and stop.metadata.get(keys.STATUS) == keys.ABORTED:
        found = f"ended by {stop.metadata.get('reason')}: it did not converge"
        yield Finding(LOG, stop.number, "the target", found, "none: at most one such run may stand in a result", "note")


@RESULT.rule("convergence.2")
def no_faster_than_the_reference(runs: Sequence[Evidence]) -> Iterator[Finding]:
    """A result does not need significantly fewer samples than the reference; if fewer, its score is normalised."""
    made = convergence(runs)
    if made is None or made.reference is None or made.minimum is None or made.interval is None:
        return
    held_to, (low, high) = made.reference, made.interval
    expected = (
        f"at least {made.minimum:,.0f} samples: the reference needs {held_to.mean:,.0f} (deviation "
        f"{held_to.deviation:,.0f}, {held_to.count} runs) at batch size {held_to.batch_size}"
    )
    found = f"{_needed(made)}, p = {made.p_value:.3g}, 90 % interval {low:,.0f} to {high:,.0f}"
    if made.outcome == "fail":
        yield Finding(
            ".", None, expected, found, "train as the reference does, or show that it does as well: suite.rcp"
        )
    elif made.normalisation > 1:
        mend = f"none: the score is multiplied by {made.normalisation:.4f}, for the reference's number of samples"
        yield Finding(".", None, expected, found, mend, "note")


@RESULT.rule("convergence.4")
def has_a_reference(runs: Sequence[Evidence]) -> Iterator[Finding]:
    """There is a point for the batch size. A benchmark without any points gets a note: the submitter broke no rule.

    Another note shows what others published of the benchmark, and decides nothing.
    """
    made, benchmark = convergence(runs), runs[0].benchmark
    if made is None or benchmark is None or made.outcome != "missing":
        return
    if made.largest or benchmark.submittable:
        expected = f"a reference convergence point of {benchmark.name} at batch size {made.batch_size:,} or above"
        found = f"none above {made.largest:,}" if made.largest else too_few(benchmark) or "none of any batch size"
        mend = "run the reference at that batch size and add its runs: python -m suite.rcp FOLDER"
        severity: Severity = "fail" if made.largest else "note"
        yield Finding(".", None, expected, f"{found}; not tested: {_needed(made)}", mend, severity)
    if not made.largest and (beside := published.compared(benchmark, made.batch_size, made.mean)):
        theirs, ours, source = beside
        yield Finding(".", None, theirs, ours, f"none: it refuses nobody. Source: {source}", "note")


def _needed(made: Convergence) -> str:
    return f"{made.mean:,.0f} samples to the target at batch size {made.batch_size} (olympic mean)"
