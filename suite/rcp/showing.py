"""Reference convergence points as a table and as curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import fmean

from mlperf_logging.mllog.constants import GLOBAL_BATCH_SIZE

from suite.config.models import Benchmark
from suite.plots import charts
from suite.plots.curves import Figure
from suite.record import history
from suite.rules.reference import Point, ReferenceRun

_HEAD = ("benchmark", "target", "batch size", "framework", "reached", "samples to it", "mean", "quality there", "code")
_REVISION = 7  # characters shown of a revision


def markdown(stored: Sequence[tuple[Benchmark, Sequence[Point]]]) -> str:
    """A Markdown row for each benchmark, batch size and framework; the reference's batch size and failures are bold."""
    rows = [_HEAD, ("---",) * len(_HEAD), *(row for each in stored for row in _rows(*each))]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _rows(benchmark: Benchmark, points: Sequence[Point]) -> Iterator[tuple[str, ...]]:
    for point in points:
        size = f"{point.global_batch_size:,}"
        usual = point.global_batch_size == benchmark.hyperparameters.get(GLOBAL_BATCH_SIZE, 1)
        for framework, runs in _by_framework(point):
            reached = [run for run in runs if run.samples is not None]
            samples = [run.samples for run in reached if run.samples is not None]
            yield (
                benchmark.name,
                f"{benchmark.metric} {benchmark.target:g}",
                f"**{size}**" if usual else size,
                framework,
                _count(runs, reached),
                _range(f"{min(samples):,}", f"{max(samples):,}") if samples else "",
                f"{fmean(samples):,.0f}" if samples else "",
                _range(*(f"{end(run.curve[-1][1] for run in reached):.4g}" for end in (min, max))) if reached else "",
                ", ".join(dict.fromkeys((run.git_revision or "not known")[:_REVISION] for run in runs)),
            )


def _by_framework(point: Point) -> list[tuple[str, list[ReferenceRun]]]:
    runs = sorted(point.runs, key=lambda run: run.framework, reverse=True)
    return [(framework, list(each)) for framework, each in groupby(runs, lambda run: run.framework)]


def _count(runs: Sequence[ReferenceRun], reached: Sequence[ReferenceRun]) -> str:
    count = f"{len(reached)} of {len(runs)}"
    seeds = ", ".join(str(run.seed) for run in runs if run.samples is None)
    return f"**{count}** (not {seeds})" if seeds else count


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def figures(stored: Sequence[tuple[Benchmark, Sequence[Point]]]) -> list[Figure]:
    """The curves of each benchmark's runs at the reference's batch size, with a kind of line for each framework."""
    return [_figure(*each) for each in stored]


def _figure(benchmark: Benchmark, points: Sequence[Point]) -> Figure:
    usual = benchmark.hyperparameters.get(GLOBAL_BATCH_SIZE, 1)
    runs = [run for point in points if point.global_batch_size == usual for run in point.runs]
    names = sorted({run.framework for run in runs}, reverse=True)
    group = charts.Group(
        benchmark.name, benchmark.metric, benchmark.target, [(run.framework, _history(run)) for run in runs]
    )
    drawn = charts.chart(group, "samples", names)
    ends = ["cross" if run.samples is None else "dot" for run in runs if run.curve]
    lost = sum(run.samples is None for run in runs)
    remarks = f"{lost} of {len(runs)} did not reach it (cross)" if lost else ""
    return Figure(f"{benchmark.name} at batch size {usual:,}", [drawn] if drawn else [], names, ends, remarks)


def _history(run: ReferenceRun) -> history.History:
    return history.History(points=tuple(history.Point(0, samples, quality) for samples, quality in run.curve))
