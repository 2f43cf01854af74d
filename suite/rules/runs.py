"""Checks of the chapter "Runs and scoring": what identifies a run, and what makes several runs one result."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mlperf_logging.mllog import constants as keys

from suite import config as suite_config
from suite.config.logkeys import CONFIG as LOGGED_CONFIG
from suite.config.logkeys import IDENTITY
from suite.config.models import FOR_TRYING
from suite.errors import shown
from suite.harness.seeds import LIMIT
from suite.record.evidence import CONFIG, LOG, SYSTEM
from suite.record.mllog import Line
from suite.record.parsing import KeyPath, differences, same, whole
from suite.record.scoring import DROPS_FROM
from suite.record.system import STORAGE
from suite.rules.finding import FOLDER_AS_WRITTEN, MAX_FINDINGS, Finding
from suite.rules.quality import converged
from suite.rules.reading import PACKAGE, RESULT, RUN, RUN_FOLDER, Evidence

OF_ONE_RUN = ("run_id", "run_index", "seed", "submitter", "division")  # not compared by runs.5

_RESULT_ID = re.compile(r"[0-9a-f]{32}\Z")


@RUN.rule("runs.1")
def same_configuration(run: Evidence) -> Iterator[Finding]:
    """The log gives the configuration's sha256, and both identify the same run. A changed file has its own rule."""
    line = run.line(LOGGED_CONFIG)
    if line is None:
        return
    for name in IDENTITY:
        if line.metadata.get(name) is None:
            yield Finding(LOG, line.number, f"{name} of the run", "none", FOLDER_AS_WRITTEN)
    if not run.intact(CONFIG):
        return
    found = run.digests[CONFIG].sha256
    if line.value != found:
        yield Finding(CONFIG, None, f"sha256 {line.value} of log line {line.number}", found, FOLDER_AS_WRITTEN)
    for name in IDENTITY:
        if not same(line.metadata.get(name), run.configured(name)):
            expected = f"{name} {line.metadata.get(name)}, as in log line {line.number}"
            yield Finding(CONFIG, run.config_line(name), expected, run.configured(name), FOLDER_AS_WRITTEN)
    named = f"{run.configured('task')}/{run.configured('scale')}"
    benchmark = run.line(keys.SUBMISSION_BENCHMARK)
    if benchmark and benchmark.value != named:
        yield Finding(CONFIG, run.config_line("task"), f"{benchmark.value}, as in the log", named, FOLDER_AS_WRITTEN)
    framework = run.configured("framework")
    if framework not in suite_config.names("framework"):
        expected = f"one of {', '.join(suite_config.names('framework'))}"
        mend = "have the suite take its file into conf/framework/ before the runs that are submitted"
        yield Finding(CONFIG, run.config_line("framework"), expected, framework, mend)


@RUN.rule("runs.2")
def seeded(run: Evidence) -> Iterator[Finding]:
    """The seed is a whole number within its range, and the configuration has the same."""
    line = run.line(keys.SEED)
    if line is None:
        return
    seed = whole(line.value)
    if seed is None or seed >= LIMIT:
        yield Finding(LOG, line.number, f"a seed from 0 to {LIMIT - 1}", line.value, "let the suite draw the seed")
    elif run.intact(CONFIG) and not same(seed, run.configured("seed")):
        expected = f"seed {seed}, as in log line {line.number}"
        yield Finding(CONFIG, run.config_line("seed"), expected, run.configured("seed"), FOLDER_AS_WRITTEN)


@RUN.rule("runs.10")
def planned(run: Evidence) -> Iterator[Finding]:
    """The configuration lists a seed for each planned run, this run's at its index, and the run's id has that index."""
    if not run.intact(CONFIG):
        return
    runs, index, seeds = whole(run.configured("runs")), whole(run.configured("run_index")), run.configured("seeds")
    where = run.config_line("seeds")
    if not isinstance(seeds, list) or (runs is not None and len(seeds) != runs):
        yield Finding(CONFIG, where, f"a seed for each of {runs} runs", seeds, FOLDER_AS_WRITTEN)
    elif index and index <= len(seeds) and not same(seeds[index - 1], run.configured("seed")):
        expected = f"seed {run.configured('seed')} as number {index}"
        yield Finding(CONFIG, run.config_line("seeds", index - 1), expected, seeds[index - 1], FOLDER_AS_WRITTEN)
    result_id, run_id = run.configured("result_id"), run.configured("run_id")
    if result_id is not None and not (isinstance(result_id, str) and _RESULT_ID.match(result_id)):
        where = run.config_line("result_id")
        yield Finding(CONFIG, where, "a result_id of 32 hexadecimal digits", result_id, FOLDER_AS_WRITTEN)
    if run_id is not None and run_id != f"{result_id}-{index}":
        yield Finding(CONFIG, run.config_line("run_id"), f"run_id {result_id}-{index}", run_id, FOLDER_AS_WRITTEN)


@RESULT.rule("runs.3")
def all_runs(runs: Sequence[Evidence]) -> Iterator[Finding]:
    """A result holds each of the runs that its command planned, as each configuration states them."""
    for run in runs:
        if not run.parsed(CONFIG):
            continue
        for name in ("runs", "run_index"):
            if not whole(value := run.configured(name)):
                expected = f"{name}, a whole number from 1"
                yield Finding(path_of(run, CONFIG), run.config_line(name), expected, value, FOLDER_AS_WRITTEN)
        index = whole(run.configured("run_index"))
        if index and run.label and run.label.rpartition("/")[2] != f"run_{index}":
            where = run.config_line("run_index")
            yield Finding(path_of(run, CONFIG), where, f"the index that {run.label} has", index, FOLDER_AS_WRITTEN)
        most = whole(run.configured("runs"))
        if index and most and index > most:
            where = run.config_line("run_index")
            yield Finding(path_of(run, CONFIG), where, f"run_index from 1 to {most}", index, FOLDER_AS_WRITTEN)
    planned = whole(runs[0].configured("runs"))
    if not planned:
        return
    if not runs[0].label:
        if planned > 1:
            mend = "review the folder that holds all runs of the result"
            where = runs[0].config_line("runs")
            yield Finding(CONFIG, where, f"{planned} runs of one result", "one of them", mend, "note")
        return
    there = [run.label.rpartition("/")[2] for run in runs]
    if len(runs) != planned or set(there) != {f"run_{index}" for index in range(1, len(runs) + 1)}:
        expected = f"run_1 to run_{planned}, each of the runs that were planned"
        mend = "submit every run, also one that did not converge, and no other"
        yield Finding(".", None, expected, ", ".join(there), mend)


@RESULT.rule("runs.4")
def distinct_seeds(runs: Sequence[Evidence]) -> Iterator[Finding]:
    """No two runs of a result share a seed."""
    first: dict[str, str] = {}
    for run in runs:
        line = run.line(keys.SEED)
        if line is None or line.value is None:
            continue
        if (before := first.setdefault(str(line.value), run.label)) != run.label:
            mend = "submit runs of the suite, each with its own seed"
            yield Finding(path_of(run, LOG), line.number, "a seed of its own", f"{line.value}, as in {before}", mend)


@RESULT.rule("runs.5")
def one_configuration(runs: Sequence[Evidence]) -> Iterator[Finding]:
    """The runs of a result share their configuration, except for seed and identity."""
    common = _common(runs[0])
    for run in runs[1:]:
        if not (run.parsed(CONFIG) and runs[0].parsed(CONFIG)):
            continue
        for path, expected, found in differences(common, _common(run)):
            name = ".".join(map(str, path))
            mend = "submit runs of one command: python -m suite.run runs=N"
            where = run.config_line(*path)
            yield Finding(path_of(run, CONFIG), where, f"{name}: {expected}, as in {runs[0].label}", found, mend)


@RESULT.rule("system.5")
def one_machine(runs: Sequence[Evidence]) -> Iterator[Finding]:
    """The runs of a result were made on one machine with the same software."""
    first = runs[0]
    for run in runs[1:]:
        if not (first.parsed(SYSTEM) and run.parsed(SYSTEM)):
            continue
        for part, path, expected, found in apart(first.system, run.system):
            where = run.system_line(str(path[-1]) if path else part)
            name = ".".join(map(str, path)) or part
            mend = "submit runs of one command on one machine: python -m suite.run runs=N"
            yield Finding(path_of(run, SYSTEM), where, f"{name}: {expected}, as in {first.label}", found, mend)


def apart(first: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[tuple[str, KeyPath, Any, Any]]:
    """Yield (part, path, both values) where system.json of two runs differs in machine or software."""
    for part in ("description", "detected", "software", "git"):
        found = differences(first.get(part), other.get(part))
        for path, ours, theirs in found[:MAX_FINDINGS]:  # a stranger's file may have any number
            if path not in (("submitter",), ("division",), (STORAGE,)):  # division.6, or free
                yield part, path, ours, theirs


@RESULT.rule("runs.6")
def enough_runs(runs: Sequence[Evidence]) -> Iterator[Finding]:
    """A result for submission has the benchmark's number of runs."""
    benchmark = runs[0].benchmark
    if benchmark and len(runs) < benchmark.runs:
        expected = f"{benchmark.runs} runs of {benchmark.name}"
        mend = f"run it with runs={benchmark.runs}"
        yield Finding(".", None, expected, f"{len(runs)}: not submittable", mend, "note")


@RESULT.rule("runs.7")
def scored(runs: Sequence[Evidence]) -> Iterator[Finding]:
    """A note for a result without a score, because too many of its runs did not converge; that breaks no rule."""
    lost = sum(not converged(run) for run in runs)
    most = 1 if len(runs) >= DROPS_FROM else 0
    if len(runs) > 1 and lost > most:
        expected = f"a score, for which at most {most} of {len(runs)} runs may end before the target"
        mend = "none: it is a result without a score; for one with a score repeat all runs"
        yield Finding(".", None, expected, f"{lost} did", mend, "note")


@RESULT.rule("division.4")
def submittable(runs: Sequence[Evidence]) -> Iterator[Finding]:
    """A note for a result that is for trying only: of `mini` or `pilot`, or on a part of the training data."""
    line, benchmark = runs[0].line(keys.SUBMISSION_BENCHMARK), runs[0].benchmark
    if not (line and benchmark) or benchmark.submittable:
        return
    if (share := benchmark.dataset.subset) is not None:
        mend = "submit runs without subset="
        where = runs[0].config_line("benchmark", "dataset", "subset")
        found = f"a pilot of {share:g} of it: not submittable"
        yield Finding(path_of(runs[0], CONFIG), where, "the whole training data", found, mend, "note")
    else:
        mend = "submit runs of another scale"
        expected, found = f"a scale other than {' and '.join(FOR_TRYING)}", f"{benchmark.scale}: not submittable"
        yield Finding(path_of(runs[0], LOG), line.number, expected, found, mend, "note")


@PACKAGE.rule("division.6")
def one_submitter(runs: Sequence[Evidence]) -> Iterator[Finding]:
    """All runs of a submission, or of a result in none, are of one submitter, and in one division."""
    for key in (keys.SUBMISSION_ORG, keys.SUBMISSION_DIVISION):
        firsts: dict[tuple[str | None, str], tuple[Evidence, Line, str]] = {}
        for run in runs:
            if (line := run.line(key)) is None:
                continue
            owner = (run.package, result_of(run) if run.package is None else "")
            first, wanted, told = firsts.setdefault(owner, (run, line, shown(line.value)))
            if not same(wanted.value, line.value):
                expected = f"{key} {told}, as in {path_of(first, LOG)}"
                yield Finding(
                    path_of(run, LOG), line.number, expected, line.value, "submit each submitter's runs apart"
                )


def _common(run: Evidence) -> dict[str, Any]:
    return {name: value for name, value in run.config.items() if name not in OF_ONE_RUN}


def path_of(run: Evidence, name: str) -> str:
    """The path of a run's file, relative to the same folder as the run's label."""
    return f"{run.label}/{name}" if run.label else name


def result_of(run: Evidence) -> str:
    """The path of the result that a run is part of: the run's own folder if that is not named run_N."""
    folder, _, name = run.label.rpartition("/")
    return folder if RUN_FOLDER.match(name) else run.label


def of_one_owner(one: Evidence, other: Evidence) -> bool:
    """Whether two runs belong to one package or one result, and thus to one submitter."""
    packed = one.package is not None and one.package == other.package
    return packed or result_of(one) == result_of(other)
