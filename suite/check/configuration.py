"""Promises of conf/task and of the task's data."""

from __future__ import annotations

from functools import partial
from typing import Any

import yaml

from suite import config
from suite.check.ledger import Broken, Ledger, Skip
from suite.check.training import OTHER_SEED, SEED, differing
from suite.config.dataset import Dataset
from suite.config.models import Benchmark, Evaluation
from suite.errors import UserError
from suite.store import files
from suite.store.arrays import array_sha256, prepared
from suite.store.shards import mapped
from suite.store.task import (
    Arrays,
    Drawing,
    Task,
    check_first,
    check_metric,
    check_target,
    draws,
    for_run,
    load_task,
    prepare,
    split_sizes,
)


def benchmark_of(ledger: Ledger, task: str, scale: str) -> Benchmark | None:
    """The benchmark of conf/task, None if it cannot be read."""
    return ledger.made("conf/task holds the benchmark's values", Benchmark, lambda: config.benchmark(task, scale))


def task_of(ledger: Ledger, benchmark: Benchmark) -> Task | None:
    """The task's module, None if it lacks a part."""
    made = ledger.made("the task's module has all its parts", Task, lambda: load_task(benchmark.task))
    if made:
        ledger.hold("the metric is one of the task's METRICS", Task, lambda: check_metric(benchmark, made))
        ledger.hold("the target lies within the metric's bounds", Task, lambda: _target(benchmark, made))
        ledger.hold("the first evaluation lies within the budget", Evaluation, lambda: check_first(benchmark))
    return made


def _target(benchmark: Benchmark, task: Task) -> None:
    if benchmark.metric not in task.METRICS:
        raise Skip("the metric is not one of the task's")
    check_target(benchmark, task)


def arrays_of(ledger: Ledger, benchmark: Benchmark, task: Task, data_dir: str | None) -> Arrays | None:
    """The arrays of a run of the benchmark, even if conf/task does not declare them; None if they cannot be made."""
    bring = partial(_brought, benchmark, task, data_dir)
    made = ledger.made("prepare returns the benchmark's arrays", Task.prepare, bring)
    if made is None:
        return None
    ledger.hold("sums and sizes of the data are declared", Dataset, partial(_sums, benchmark, task, made, data_dir))
    if draws(task):
        draw = partial(_drawn, benchmark, task, made)
        made = ledger.made("a run's evaluation arrays are those of its seed", Drawing.evaluation_arrays, draw) or made
    ledger.hold("no array but answer_* holds the answers", Task.prepare, partial(_answers, made))
    return made


def _brought(benchmark: Benchmark, task: Task, data_dir: str | None) -> Arrays:
    root = files.root(data_dir)
    try:
        return prepared(benchmark, task, data_dir)
    except UserError:  # sums or sizes other than declared are for the next promise
        if files.faults(benchmark.dataset, root):
            raise
    return {**prepare(benchmark, task, root), **mapped(benchmark, root)}


def _sums(benchmark: Benchmark, task: Task, made: Arrays, data_dir: str | None) -> None:
    dataset, root = benchmark.dataset, files.root(data_dir)
    shards = mapped(benchmark, root)
    found = {name: array_sha256(array) for name, array in made.items() if name not in shards}
    sizes = split_sizes(benchmark, task, made)
    declared = dataset.arrays  # None where a sum is not declared
    others = sorted(
        name
        for name in found.keys() | declared.keys()
        if name not in found or name not in declared or declared[name] not in (None, found[name])
    )
    if not others and all(getattr(dataset, name) == size for name, size in sizes.items()):
        return
    again = prepare(benchmark, task, root)  # a declared sum must be reproducible
    strays = [name for name in found if name not in again or array_sha256(again[name]) != found[name]]
    if strays:
        raise Broken(f"prepare makes another {strays[0]!r} each time", "draw with a fixed seed, in a fixed order")
    wrong = [f"{name} {getattr(dataset, name)}" for name, size in sizes.items() if getattr(dataset, name) != size]
    said = [*wrong, *([f"other sums of {', '.join(others)}"] if others else [])]
    raise Broken(f"{'; '.join(said)} than the data has", missing_yaml(benchmark.scale, {**sizes, "arrays": found}))


def _drawn(benchmark: Benchmark, task: Task, made: Arrays) -> Arrays:
    one, again, other = (for_run(benchmark, task, made, seed) for seed in (SEED, SEED, OTHER_SEED))
    if strays := differing(one, again):
        raise Broken(f"evaluation_arrays makes another {strays[0]!r} each time, of one seed")
    if not differing(one, other):
        raise Broken(f"evaluation_arrays makes the same of seeds {SEED} and {OTHER_SEED}")
    return one


def missing_yaml(scale: str, dataset: dict[str, Any]) -> str:
    """The YAML that conf/task must hold for the dataset of `scale`, ready to paste."""
    return yaml.safe_dump({"scales": {scale: {"dataset": dataset}}}, sort_keys=False).rstrip()


def _answers(arrays: Arrays) -> None:
    answers = {array_sha256(array): name for name, array in arrays.items() if name.startswith("answer_")}
    if not answers:
        raise Skip("the task has no answer_* array")
    for name, array in arrays.items():
        if not name.startswith("answer_") and (answer := answers.get(array_sha256(array))):
            raise Broken(f"{name!r}, which implementations are given, is {answer!r}")
