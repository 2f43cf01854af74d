"""The results page: one self-contained file that works offline, and holds nothing of a submission but text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from suite.plots import charts, templates
from suite.plots.charts import Group
from suite.plots.scatter import TOP
from suite.results.across import fastest, profile, standings
from suite.results.comparison import format_interval
from suite.results.curves import AXES
from suite.results.entry import Entry, remarks, scored_by
from suite.results.links import link
from suite.results.scatters import scatters
from suite.rules.verdict import RunReview

MAX_RUNS = 20  # whose curves are drawn, of one result
MAX_POINTS = 40  # of a drawn curve
FILTERS = ("benchmark", "division", "submitter", "framework", "implementation", "seeds", "ruleset", "verdict")


def html(
    entries: Sequence[Entry], page: Path, reviews: Mapping[tuple[str, str], Path], reference: str | None = None
) -> str:
    """The page of `entries` that will lie at `page`.

    `reviews` has the review of each source by a ruleset. `reference` is the system that times are first compared with.
    """
    system_of = systems(entries)
    return templates.page(
        "board.html",
        "suite.results",
        css=("page.css", "board.css"),
        js=("page.js", "board.js"),
        entries=list(enumerate(entries, 1)),
        filters=[(name, sorted({getattr(entry, name) for entry in entries})) for name in FILTERS],
        systems=sorted({system_of(entry) for entry in entries}),
        reference=reference,
        system_of=system_of,
        remarks=remarks,
        scored_by=scored_by,
        ratios=ratios(entries, reference),
        reference_standings=standings(entries, system_of, reference) if reference else [],
        format_interval=format_interval,
        profile=profile(entries, system_of),
        scatters=scatters(entries),
        scatter_top=TOP,
        run_name=run_name,
        max_runs=MAX_RUNS,
        drawings=drawings,
        evidence=lambda entry, path=".": link(page, Path(entry.source), path),
        review=lambda entry: link(page, at) if (at := reviews.get((entry.source, entry.ruleset))) else None,
        beside=page.with_suffix("").name,
        quote=quote,
    )


def systems(entries: Sequence[Entry]) -> Callable[[Entry], str]:
    """What names the system of each entry: `system_of`, and the machine where one name stands for several of them."""
    machines: dict[str, set[str]] = {}
    for entry in entries:
        machines.setdefault(system_of(entry), set()).add(entry.machine)

    def named(entry: Entry) -> str:
        name = system_of(entry)
        return name if len(machines[name]) == 1 else f"{name} ({entry.machine})"

    return named


def system_of(entry: Entry) -> str:
    """A system's name with its submitter's, because two submitters may give machines the same name."""
    return f"{entry.submitter}: {entry.system}"


def ratios(entries: Sequence[Entry], reference: str | None) -> list[float | None]:
    """How many times as fast each result is as the reference system's best of the contest; None if not known."""
    of_reference = fastest(entries, systems(entries)).get(reference or "", {})
    best = {contest: entry.seconds for contest, entry in of_reference.items()}
    return [base / entry.seconds if (base := best.get(entry.contest)) and entry.seconds else None for entry in entries]


def drawings(entry: Entry) -> list[charts.Chart]:
    """Quality over samples and over time, a curve for each run."""
    runs = [(_name(entry, run), thinned(run)) for run in entry.runs[:MAX_RUNS]]
    group = Group("", entry.metric, entry.target, [(name, run.history) for name, run in runs])
    return [chart for axis in AXES if (chart := charts.chart(group, axis))]


def thinned(run: RunReview) -> RunReview:
    """A run with at most `MAX_POINTS` of its evaluations, the last among them."""
    points = run.history.points
    step = -(-len(points) // MAX_POINTS) or 1
    return replace(run, history=replace(run.history, points=points[::-1][::step][::-1]))


def run_name(run: RunReview) -> str:
    """The name of a run within its result: its folder, or for one of MLPerf's its log."""
    folder, _, log = run.path.rpartition("/")
    return (folder.rpartition("/")[2] or run.path) if run.seed is not None else log


def _name(entry: Entry, run: RunReview) -> str:
    return run_name(run) + ("" if run.converged else f", {entry.lost}") + (", NOISY" if run.summary.noise else "")
