"""Reference convergence points from the evidence of reference runs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import yaml
from mlperf_logging.mllog import constants as keys

from suite.config.models import Benchmark, Formula
from suite.errors import UserError
from suite.record import git
from suite.record.scoring import DROPS_FROM
from suite.record.summary import format_count
from suite.rules import convergence, reference
from suite.rules.hyperparameters import batch_size
from suite.rules.implementation import contestant_of
from suite.rules.quality import converged
from suite.rules.reading import Evidence
from suite.rules.reference import Point, Reference, ReferenceRun
from suite.rules.revision import revision_of
from suite.rules.verdict import review
from suite.store.disk import write_text


def add(folders: Sequence[Path], data_dir: str | None) -> None:
    """Add the runs of these folders to the points of their benchmarks, and print the points.

    Raises UserError for the first run that is not a reference run, and then writes nothing.
    """
    given: dict[str, list[tuple[int, ReferenceRun]]] = {}
    benchmarks: dict[str, Benchmark] = {}
    for folder in folders:
        for benchmark, batch, run in _runs(folder, data_dir):
            benchmarks[benchmark.name] = benchmark
            given.setdefault(benchmark.name, []).append((batch, run))
    made: dict[str, Reference] = {}
    for name, runs in given.items():
        made[name] = reference.load(benchmarks[name])
        for batch, run in runs:
            made[name] = _with(made[name], batch, run)
    for name, stored in made.items():
        _write(benchmarks[name], stored)
        _print(benchmarks[name], stored)


def _runs(folder: Path, data_dir: str | None) -> list[tuple[Benchmark, int, ReferenceRun]]:
    """The runs of an evidence folder. Raises UserError for the first that is not a reference run."""
    made = review(folder, data_dir)
    for finding in made.findings:
        # Reference runs set the points, so they are not held to the existing ones.
        if finding.severity != "note" and finding.rule not in ("convergence.2", "convergence.4"):
            raise UserError(
                f"{folder} does not pass the review: {finding.file}: {finding.rule}, expected {finding.expected}, "
                f"found {finding.found}; suite review {folder} shows all findings"
            )
    found = []
    for each in made.runs:
        where = folder / Path(each.path).parent
        run = Evidence.read(where)
        assert run.benchmark is not None, "it passed the review"
        assert run.timeline.run_stop is not None, "it passed the review"
        if run.timeline.run_stop.metadata.get("reason") == "interrupt":
            raise UserError(f"{where} was interrupted: give runs that went on to the target or the end of the budget")
        if (revision := revision_of(run)) is None:
            raise UserError(f"{where} is of code without a revision: give runs of a checkout")
        if git.has_history() and not git.descends_from(revision):
            raise UserError(
                f"{where} is of revision {revision[:12]}, which is not in the history of this checkout: update it, or "
                "give runs of a commit that it has"
            )
        if run.described("git", "dirty") is not False:
            raise UserError(f"{where} is of changed code: commit the changes, and give runs of the commit")
        if run.value(keys.SUBMISSION_DIVISION) != keys.CLOSED:
            raise UserError(f"{where} is not of the closed division: the reference is")
        if (share := run.benchmark.dataset.subset) is not None:
            raise UserError(f"{where} was trained on {share:g} of the data: give runs of all of it, as results have")
        if contestant := contestant_of(run):
            raise UserError(f"{where} is of the implementation {contestant.name}: points are the reference's")
        found.append((run.benchmark, batch_size(run, run.benchmark), _run(run, run.benchmark)))
    return found


def _run(run: Evidence, benchmark: Benchmark) -> ReferenceRun:
    start = run.timeline.run_start
    assert start is not None, "it passed the review"
    curve = convergence.curve(run)
    return ReferenceRun(
        seed=run.value(keys.SEED),
        samples=curve[-1][0] if converged(run) else None,
        framework=run.configured("framework"),
        system=run.configured("system", "name"),
        machine=_machine(run.described("description")),
        date=datetime.fromtimestamp(start.time_ms / 1000, UTC).date().isoformat(),
        command=_command(run, benchmark),
        git_revision=run.described("git", "revision"),
        run_id=run.configured("run_id"),
        curve=curve,
    )


def _machine(description: Mapping[str, str]) -> str:
    accelerators = description["accelerators_per_node"]
    if accelerators not in ("", "0"):
        return f"{accelerators} x {description['accelerator_model_name']}"
    return f"{description['host_processor_model_name']}, {description['host_processor_vcpu_count']} logical CPUs"


def _command(run: Evidence, benchmark: Benchmark) -> str:
    words = [f"{name}={run.configured(name)}" for name in ("task", "scale", "framework")]
    words += [f"hw={run.configured('system', 'name')}", f"seed={run.value(keys.SEED)}"]
    if run.configured("benchmark", "precision") != benchmark.precision:  # else the machine decides
        words.append(f"precision={run.configured('precision')}")
    usual = benchmark.hyperparameters
    for name, free in benchmark.free.items():
        value, expected = run.value(name), usual[name]
        if isinstance(free, Formula):  # which the command sets by itself
            expected = free.of(expected, run.value(free.proportional_to), usual[free.proportional_to])
        if value != expected:
            words.append(f"hyperparameters.{name}={value}")
    return f"python -m suite.run {' '.join(words)}"


def _with(stored: Reference, batch: int, run: ReferenceRun) -> Reference:
    """Add a run to the points unless it is there already. Raises UserError if its seed has a run already."""
    points = {point.global_batch_size: point.runs for point in stored.points}
    for other in points.get(batch, ()):
        if other.run_id == run.run_id:
            return stored
        if other.seed == run.seed:
            raise UserError(
                f"{stored.benchmark} at batch size {batch} has a run of seed {run.seed} already ({other.framework}, "
                f"{other.date}): give a run of another seed"
            )
    points[batch] = (*points.get(batch, ()), run)
    made = tuple(Point(global_batch_size=size, runs=points[size]) for size in sorted(points))
    return stored.model_copy(update={"points": made})


def _write(benchmark: Benchmark, stored: Reference) -> None:
    values = json.loads(stored.model_dump_json())
    text = yaml.safe_dump(values, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)
    head = "# Reference convergence points, made by python -m suite.rcp; not to be edited.\n"
    write_text(reference.path(benchmark), head + text)


def _print(benchmark: Benchmark, stored: Reference) -> None:
    print(f"{benchmark.name}: {reference.path(benchmark)}")
    populations = [convergence.of_point(point, benchmark) for point in convergence.counting(benchmark)]
    for point in stored.points:
        runs = f"batch size {point.global_batch_size}: {format_count(len(point.runs), 'run')}"
        failed = [run.seed for run in point.runs if run.samples is None]
        if failed:
            seeds = ", ".join(map(str, failed))
            runs += f", {len(failed)} of which did not reach the target (seed{'s' * (len(failed) > 1)} {seeds})"
        if len(convergence.reached(point)) < convergence.runs_needed(benchmark):
            print(f"  {runs}; they count from {convergence.runs_needed(benchmark)} on")
            continue
        own = convergence.of_point(point, benchmark)
        held_to = convergence.at(populations, own.batch_size)
        assert held_to is not None, "the point itself counts"
        results = max(benchmark.runs, DROPS_FROM)  # a result of fewer runs is not held to the points
        least = held_to.mean - convergence.margin(held_to, results - 2)
        wanted = convergence.runs_asked(benchmark)
        asked = f"; MLPerf asks for {wanted}" if len(convergence.reached(point)) < wanted else ""
        print(
            f"  {runs}{asked}; samples to the target: mean {own.mean:,.0f}, deviation {own.deviation:,.0f}; "
            f"{results} runs pass from a mean of {math.ceil(least):,} on{_elsewhere(own, held_to)}"
        )


def _elsewhere(own: convergence.Population, held_to: convergence.Population) -> str:
    """What a review holds the batch size to, in words; empty if that is its own point."""
    if held_to == own:
        return ""
    if held_to.batch_size == own.batch_size:
        return ", held to the points at smaller and larger batch sizes, which need fewer samples"
    return f", held to batch size {held_to.batch_size}, which needs fewer samples"
