"""The curves of each benchmark's runs, for plots.curves to draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from suite.plots import charts
from suite.plots.charts import Group
from suite.plots.curves import Figure
from suite.results.entry import Entry

AXES: tuple[charts.Axis, ...] = ("samples", "seconds")


def figures(entries: Sequence[Entry]) -> list[Figure]:
    """The curves of all runs, a figure for each benchmark; each framework or implementation has its kind of line."""
    by_benchmark = sorted(entries, key=lambda entry: entry.benchmark)
    return [_figure(name, list(each)) for name, each in groupby(by_benchmark, lambda entry: entry.benchmark)]


def _figure(benchmark: str, entries: Sequence[Entry]) -> Figure:
    names = sorted({entry.trained_by for entry in entries})
    runs = [(entry, run) for entry in entries for run in entry.runs if run.history.points]
    group = Group(
        benchmark, entries[0].metric, entries[0].target, [(entry.trained_by, run.history) for entry, run in runs]
    )
    made = [chart for axis in AXES if (chart := charts.chart(group, axis, names))]
    drawn = [chart for chart in made if len(chart.curves) == len(runs)]
    ends = ["cross" if not run.converged else "ring" if run.summary.noise else "dot" for _, run in runs]
    lost = Counter(f"{entry.lost} (cross)" for entry, run in runs if not run.converged)
    lost["NOISY (ring)"] = ends.count("ring")
    remarks = ", ".join(f"{count} of {len(runs)} {word}" for word, count in lost.items() if count)
    return Figure(benchmark, drawn, names, ends, remarks)
