"""Quality over samples and over time as one SVG file: self-contained, readable on light and on dark pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from suite.leaderboard.entry import Entry
from suite.report import charts
from suite.report.drawn import Group
from suite.report.selfcontained import environment

AXES: tuple[charts.Axis, ...] = ("samples", "seconds")
GAP, HEAD = 24, 52  # pixels between the two drawings, and above them


@dataclass(frozen=True)
class Figure:
    """A benchmark's curves over samples and over time.

    `names` are the frameworks by the kind of their line; `ends` says of each curve how it ends: at the target in a
    `dot`, or in a `ring` if its machine was noisy, or in a `cross`. `remarks` says so in words.
    """

    title: str
    charts: list[charts.Chart]
    names: list[str]
    ends: list[str]
    remarks: str


def svg(entries: Sequence[Entry]) -> str:
    """The drawing of all runs, a row for each benchmark; each framework has its kind of line."""
    figures = [
        _figure(benchmark, list(each))
        for benchmark, each in groupby(sorted(entries, key=lambda entry: entry.benchmark), lambda e: e.benchmark)
    ]
    return (
        environment("suite.leaderboard")
        .get_template("curves.svg")
        .render(figures=figures, c=charts, gap=GAP, head=HEAD)
    )


def _figure(benchmark: str, entries: Sequence[Entry]) -> Figure:
    names = sorted({entry.framework for entry in entries})
    runs = [(entry.framework, run) for entry in entries for run in entry.runs if run.history.points]
    group = Group(benchmark, entries[0].metric, entries[0].target, [(name, run.history) for name, run in runs])
    drawn = []
    for axis in AXES:
        chart = charts.chart(group, axis)
        if chart and len(chart.curves) == len(runs):
            kinds = [names.index(curve.name) % charts.KINDS for curve in chart.curves]
            curves = [replace(curve, kind=kind) for curve, kind in zip(chart.curves, kinds, strict=True)]
            drawn.append(replace(chart, curves=curves))
    ends = ["cross" if not run.reached else "ring" if run.noise else "dot" for _, run in runs]
    lost = Counter(f"{run.lost} (cross)" for _, run in runs if not run.reached)
    lost["NOISY (ring)"] = ends.count("ring")
    remarks = ", ".join(f"{count} of {len(runs)} {word}" for word, count in lost.items() if count)
    return Figure(benchmark, drawn, names, ends, remarks)
