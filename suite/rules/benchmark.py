"""Checks of the chapters "Divisions" and "Data": the benchmark that was run is the suite's own."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from mlperf_logging.mllog import constants as keys

from suite import config as suite_config
from suite.config.dataset import Dataset
from suite.config.logkeys import CONFIG as LOGGED_CONFIG
from suite.config.logkeys import DATASET
from suite.record import names
from suite.record.evidence import CONFIG, LOG, SYSTEM
from suite.record.parsing import differences, is_sha256, same, without_none
from suite.record.system import DIVISIONS, STATUSES
from suite.rules import cadence
from suite.rules.finding import LOG_AS_WRITTEN, Finding
from suite.rules.reading import RUN, Evidence
from suite.store.shards import numbered

OF_CADENCE = ("evaluation", "budget_samples")
NOT_YOURS = "run the benchmark as conf/task/ has it: without overriding task values"


@RUN.rule("division.1")
def known_benchmark(run: Evidence) -> Iterator[Finding]:
    """The benchmark is one of the suite's."""
    line = run.line(keys.SUBMISSION_BENCHMARK)
    if line and run.benchmark is None:
        known = [each.name for each in suite_config.benchmarks()]
        yield Finding(LOG, line.number, f"one of {', '.join(known)}", line.value, "name one of the suite's benchmarks")


@RUN.rule("division.2")
def unchanged_benchmark(run: Evidence) -> Iterator[Finding]:
    """Configuration and log hold the benchmark as the suite defines it; its hyperparameters have their own rules.

    Where the data came from is free, since its content has checksums. A missing field counts as None, as evidence may
    be of an older suite.
    """
    if run.benchmark is None:
        return
    line = run.line(LOGGED_CONFIG)
    named = {"metric": run.benchmark.metric, "metric_signature": run.benchmark.metric_signature}
    for name, right in {**named, "cadence": cadence.cadence(run.benchmark.model_dump())}.items():
        if line and name in line.metadata and not same(line.metadata[name], right):
            yield Finding(LOG, line.number, f"{name} {right}", line.metadata[name], NOT_YOURS)
    if not run.parsed(CONFIG):
        return
    free = OF_CADENCE if run.in_open else ()
    expected = _comparable(run.benchmark.model_dump(mode="json"), free)
    for path, right, wrong in differences(expected, _comparable(run.configured("benchmark"), free)):
        where = run.config_line("benchmark", *path)
        yield Finding(CONFIG, where, f"benchmark.{'.'.join(map(str, path))}: {right}", wrong, NOT_YOURS)


def _comparable(benchmark: Any, free: Collection[str]) -> Any:
    values = without_none(benchmark)
    if isinstance(values, dict):
        others = {"hyperparameters", "free", "precision", *free}
        values = {name: value for name, value in values.items() if name not in others}
        if isinstance(dataset := values.get("dataset"), dict):
            brought = ("files", "made", "archive", "mirror")
            values["dataset"] = {name: value for name, value in dataset.items() if name not in brought}
    return values


@RUN.rule("division.9")
def own_cadence(run: Evidence) -> Iterator[Finding]:
    """In the open division the submitter chooses cadence and budget, in whole numbers."""
    configured = run.configured("benchmark")
    if run.in_open and isinstance(configured, dict) and not cadence.is_one(found := cadence.cadence(configured)):
        where = run.config_line("benchmark", "evaluation")
        yield Finding(CONFIG, where, cadence.FORM, found, "set evaluation.first, evaluation.every and budget_samples")


@RUN.rule("division.7")
def room_used(run: Evidence) -> Iterator[Finding]:
    """A note for each value of cadence, budget and hyperparameters that a run of the open division chose itself."""
    configured = run.configured("benchmark")
    if run.benchmark is None or not run.in_open or not isinstance(configured, dict):
        return
    usual = suite_config.benchmark(run.benchmark.task, run.benchmark.scale).model_dump(mode="json")
    for name in (*OF_CADENCE, "hyperparameters"):
        for path, closed, found in differences(usual[name], configured.get(name)):
            where, told = run.config_line("benchmark", name, *path), ".".join((name, *map(str, path)))
            expected = f"{told} {closed} of the closed division"
            yield Finding(CONFIG, where, expected, found, "none: the division frees it", "note")


@RUN.rule("division.3")
def division(run: Evidence) -> Iterator[Finding]:
    """Division, status and submitter are allowed ones, and the same in log, configuration and description."""
    for key, name, allowed in (
        (keys.SUBMISSION_DIVISION, "division", DIVISIONS),
        (keys.SUBMISSION_STATUS, "status", STATUSES.values()),
        (keys.SUBMISSION_ORG, "submitter", None),
    ):
        line = run.line(key)
        if line is None:
            continue
        if line.value not in (allowed or (line.value,)) or not isinstance(line.value, str):
            expected = f"one of {', '.join(allowed)}" if allowed else "a name"
            yield Finding(LOG, line.number, expected, line.value, f"log an allowed {key}")
        elif not allowed and (problem := names.problem(line.value)):
            expected = "a name that everybody reads alike"
            yield Finding(LOG, line.number, expected, f"one that {problem}", "name the submitter in plain letters")
        everywhere, mend = f"{name} {line.value}, as in log line {line.number}", f"name one {name} everywhere"
        described = run.described("description", name)
        if described is not None and not same(line.value, described):
            yield Finding(SYSTEM, run.system_line(name), everywhere, described, mend)
        configured = run.configured(name)
        older = configured is None and key != keys.SUBMISSION_ORG  # its configuration named the submitter alone
        if run.parsed(CONFIG) and not older and not same(line.value, configured):
            yield Finding(CONFIG, run.config_line(name), everywhere, configured, mend)


@RUN.rule("data.1")
def right_data(run: Evidence) -> Iterator[Finding]:
    """The prepared arrays that were trained and evaluated on have the sha256 that the suite declares."""
    line, benchmark = run.line(DATASET), run.benchmark
    if line is None or benchmark is None:
        return
    mend = "get the dataset anew: python -m suite.data verify, then fetch"
    if line.value != benchmark.dataset.name:
        yield Finding(LOG, line.number, f"dataset {benchmark.dataset.name}", line.value, mend)
    logged = line.metadata.get("arrays")
    declared = {name: right for name, right in benchmark.dataset.arrays.items() if right is not None}
    unknown = {*benchmark.dataset.arrays, *_shards(benchmark.dataset)} - declared.keys()
    if isinstance(logged, dict) and unknown:
        if lacking := [name for name in sorted(unknown) if not is_sha256(logged.get(name))]:
            expected = f"the sha256 of each of {len(unknown)} arrays without a declared one"
            yield Finding(LOG, line.number, expected, f"none of {', '.join(lacking[:2])}", LOG_AS_WRITTEN)
        told = ", ".join(f"{name} {logged.get(name, 'none')!s:.64}" for name in sorted(unknown)[:2])
        expected = f"declared sums of {len(unknown)} arrays of {benchmark.dataset.name}, which the suite never read"
        declare = "compare with the sums of others' runs of this benchmark"
        yield Finding(LOG, line.number, expected, f"not held to any: {told}...", declare, "note")
        logged = {name: found for name, found in logged.items() if name not in unknown}
    for path, right, wrong in differences(declared, logged):
        yield Finding(LOG, line.number, f"sha256 of {'.'.join(map(str, path)) or 'each array'}: {right}", wrong, mend)


def _shards(dataset: Dataset) -> list[str]:
    """The names of the shards without a declared sha256."""
    named = [(name, i, file) for name in dataset.shards or {} for i, file in enumerate(dataset.shards_of(name))]
    return [numbered(name, i) for name, i, file in named if file.sha256 is None]


@RUN.rule("data.2")
def right_sizes(run: Evidence) -> Iterator[Finding]:
    """The log gives the benchmark's sizes of the training and evaluation splits."""
    if run.benchmark is None:
        return
    dataset = run.benchmark.dataset
    for key, expected in ((keys.TRAIN_SAMPLES, dataset.train_samples), (keys.EVAL_SAMPLES, dataset.eval_samples)):
        line = run.line(key)
        if line and not same(expected, line.value):
            yield Finding(LOG, line.number, f"{key} {expected}", line.value, NOT_YOURS)
