"""Evidence that passes every rule, made without training."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml
from mlperf_logging.mllog import constants as keys

from suite import config
from suite.config import logkeys
from suite.config.plan import Plan
from suite.harness import seeds
from suite.measure.cost import cost, price_per_hour
from suite.measure.energy import energy
from suite.measure.machine import Machine
from suite.measure.samples import HEADER, Sample, format_row, read_samples
from suite.measure.systems import power_ceiling
from suite.record import evidence, git, mllog, system
from suite.record.equivalence import FILE, Comparison, Equivalence, Trial
from suite.rules import reference
from suite.rules.reference import Point, Reference, ReferenceRun
from suite.rules.seals import SEAL
from suite.store import code
from tests.record.example_run import SteppedClock
from tests.rules.editor import Evidence
from tests.rules.subject import (
    APART_MS,
    BEGUN_MS,
    BENCHMARK,
    CONTESTANT,
    CPU_ONLY,
    DECLARED,
    EVERY,
    OWN_CODE,
    REVISION,
    RUN_MS,
    UNKNOWN_REVISION,
    WITNESS,
    Record,
    accuracy,
    guesses,
    nearly_right,
)
from tests.witness_server import Authority

SOUND_SEAL = {
    "version": 1,
    "org": "a",
    "division": "closed",
    "category": "cloud",
    "results": [],
    "missing": [],
    "files": {},
}


def write_seal(folder: Path, **changes: Any) -> None:
    """A seal of the submission in `folder`, of nothing but what `changes` say."""
    (folder / SEAL).write_text(json.dumps({**SOUND_SEAL, **changes}))


def held_to_the_reference(precision: str, found: float | None = 0.001) -> Equivalence:
    """What a check of OWN_CODE against the reference found, at most, of 0.01 that are allowed."""
    trials = tuple(
        Trial(trial="a step", precision=each, found=found, bound=0.01) for each in dict.fromkeys(("fp32", precision))
    )
    comparison = Comparison(benchmark=BENCHMARK.name, trials=trials)
    return Equivalence(suite_version="0.1.0", name=CONTESTANT.name, sha256=CONTESTANT.sha256, comparisons=(comparison,))


@cache
def described(name: str, machine: Machine) -> dict[str, Any]:
    made = system.describe(config.system(name), machine, config.framework("torch"), DECLARED)
    usable = {"cpus": machine.logical_cpus, "cpu_quota": None}
    return {**made, "git": {"revision": REVISION, "dirty": False}, "environment": {**made["environment"], **usable}}


def reference_points(folder: Path, samples: Sequence[int] = (5000, 6000, 6000, 6000, 7000), batch: int = 100) -> Path:
    """A file of reference convergence points, with which the runs of `write_run` agree."""
    runs = tuple(
        ReferenceRun(
            seed=seed,
            samples=needed,
            framework="torch",
            system="cpu",
            machine="a CPU",
            date="2026-01-01",
            command="made up",
            git_revision=None,
            run_id=str(seed),
            curve=((4000, 0.9), (needed, 0.99)),
        )
        for seed, needed in enumerate(samples)
    )
    points = (Point(global_batch_size=batch, runs=runs),)
    made = Reference(benchmark=BENCHMARK.name, recipe=reference.recipe(BENCHMARK), points=points)
    path = folder / "points.yaml"
    path.write_text(yaml.safe_dump(made.model_dump(mode="json")))
    return path


def isolate(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the rules see a benchmark with free hyperparameters, made-up reference convergence points and revisions."""
    points = reference_points(folder)
    real = config.benchmark
    monkeypatch.setattr(config, "benchmark", lambda task, scale: BENCHMARK if scale == "mini" else real(task, scale))
    monkeypatch.setattr(reference, "path", lambda benchmark: points)
    committed = lambda revision: None if revision == UNKNOWN_REVISION else BEGUN_MS - APART_MS  # noqa: E731
    monkeypatch.setattr(git, "has_history", lambda: True)
    monkeypatch.setattr(git, "committed_ms", committed)
    monkeypatch.setattr(git, "descends_from", lambda revision: revision != UNKNOWN_REVISION)


def write_run(
    folder: Path,
    index: int = 1,
    runs: int = 1,
    hw: str = "cpu",
    machine: Machine = CPU_ONLY,
    sampled: float = 1.0,
    sample_ms: int = 1000,
    evaluations: int = 3,
    seed: int = 100,
    token: str | None = None,
    authority: Authority | None = None,
    own: bool = False,
) -> Evidence:
    """A run that reaches the target at its last evaluation, after 30 s; its power is sampled for a part of the time.

    Seed by seed losses, qualities, throughputs and times differ, as those of real runs do. `token` draws the seeds,
    `authority` stamps begin and end of the clock. `own` code trained, in place of the reference.
    """
    drawn = seeds.of_round(token, DECLARED["submitter"], BENCHMARK.name, hw, keys.CLOSED, runs) if token else None
    plan = Plan(
        benchmark=BENCHMARK,
        system=config.system(hw),
        framework=config.framework("torch"),
        precision="bf16",
        seeds=drawn or tuple(range(seed, seed + runs)),
        token=token,
        witness=WITNESS if authority else None,
        result_id=f"{seed:032x}",
        **DECLARED,
        out=folder,
        contestant=CONTESTANT if own else None,
    )
    folder.mkdir(parents=True)
    resolved = plan.resolved(index)
    (folder / evidence.CONFIG).write_text(yaml.safe_dump(resolved, sort_keys=False))
    description = {**described(hw, machine), "implementation": resolved["implementation"]}
    (folder / evidence.SYSTEM).write_text(json.dumps(description, indent=1))
    clock = SteppedClock(BEGUN_MS + (index - 1) * APART_MS)
    with mock.patch.object(mllog, "begun", return_value=clock):
        log = mllog.Log(folder / evidence.LOG)
    _head(log, plan, resolved, folder)
    clock.ms += 5_000
    log.event(logkeys.STATE, hashlib.sha256(f"{seed} {index}".encode()).hexdigest(), samples_count=0)
    log.stop(keys.INIT_STOP)
    log.start(keys.RUN_START)
    start, samples = clock.ms, 0
    draw = random.Random(f"{seed} {index}")
    cuts = sorted(draw.sample(range(1000, RUN_MS - 1000, 50), 2 * evaluations - 1))
    for block in range(evaluations):
        log.start(keys.BLOCK_START, samples_count=samples)
        before, end = clock.ms, start + cuts[2 * block]
        counts = range(samples + EVERY, BENCHMARK.next_evaluation(samples) + 1, EVERY)
        times = [*sorted(draw.randrange(before, end) for _ in counts[1:]), end]
        for samples, clock.ms in zip(counts, times, strict=True):
            seconds, before = max(clock.ms - before, 1) / 1000 * draw.uniform(0.8, 1), clock.ms
            tracked = {"throughput": EVERY / seconds, "loss": draw.uniform(0.5, 1)}
            log.event(logkeys.TRACKED, tracked, samples_count=samples)
        log.start(keys.EVAL_START, samples_count=samples)
        last = block == evaluations - 1
        clock.ms = start + (RUN_MS if last else cuts[2 * block + 1])
        state = hashlib.sha256(f"{seed} {index} {samples}".encode()).hexdigest()
        _evaluation(log, nearly_right(draw) if last else guesses(draw), samples, folder, state)
        log.stop(keys.BLOCK_STOP, samples_count=samples)
    log.stop(keys.RUN_STOP, status=keys.SUCCESS, samples_count=samples, reason="target")
    rows = [Sample(at, None, None, None, 0.5, 0.0, 0.0) for at in range(start, clock.ms + 1, sample_ms)]
    kept = rows[: round(sampled * len(rows))]
    (folder / evidence.POWER).write_text("\n".join([HEADER, *map(format_row, kept)]) + "\n")
    log.event(logkeys.ENVIRONMENT, "quiet", when="during", reasons=[])
    used = asdict(energy(read_samples(folder / evidence.POWER), start, clock.ms, power_ceiling(plan.system, machine)))
    log.event(logkeys.ENERGY, used.pop("joules"), **used)
    price = price_per_hour(plan.system, machine)
    source = plan.system.price.model_dump()
    log.event(logkeys.COST, cost(price, (clock.ms - start) / 1000), price_per_hour=price, **source)
    if own:
        code.write(OWN_CODE, folder / code.CODE)
        (folder / FILE).write_text(held_to_the_reference(plan.precision).model_dump_json())
        log.event(logkeys.IMPLEMENTATION_AFTER, CONTESTANT.name, changed=[])
    if authority:
        log.event(logkeys.WITNESS, "stamps.example.org", **dict.fromkeys(evidence.STAMPS, True), problems=[])
    log.close()
    made = Evidence(folder)
    if authority:
        made.stamp(authority)
    evidence.seal(folder, log.head)
    return made


def write_result(folder: Path, runs: int, **parameters: Any) -> list[Evidence]:
    """All runs of a result, each as `write_run` makes it, in the folder."""
    return [write_run(folder / f"run_{index}", index, runs, **parameters) for index in range(1, runs + 1)]


def _head(log: mllog.Log, plan: Plan, resolved: Record, folder: Path) -> None:
    log.event(keys.CACHE_CLEAR, True)
    log.start(keys.INIT_START)
    log.event(keys.SUBMISSION_BENCHMARK, BENCHMARK.name)
    log.event(keys.SUBMISSION_ORG, plan.submitter)
    log.event(keys.SUBMISSION_DIVISION, plan.division)
    log.event(keys.SUBMISSION_STATUS, plan.status)
    log.event(keys.SUBMISSION_PLATFORM, plan.system.name)
    identity = ("run_id", "result_id", "run_index", "runs", "task", "scale", "framework")
    logged = {name: resolved[name] for name in identity}
    sha256 = hashlib.sha256((folder / evidence.CONFIG).read_bytes()).hexdigest()
    named = {"metric": BENCHMARK.metric, "metric_signature": BENCHMARK.metric_signature, "precision": plan.precision}
    named["cadence"] = {**BENCHMARK.evaluation.model_dump(), "budget_samples": BENCHMARK.budget_samples}
    code = {"git_revision": REVISION, "git_dirty": False}
    log.event(logkeys.CONFIG, sha256, **logged, system=plan.system.name, token=plan.token, **named, **code)
    if told := resolved["implementation"]:
        log.event(logkeys.IMPLEMENTATION, told["name"], **{key: each for key, each in told.items() if key != "name"})
    log.event(keys.SEED, resolved["seed"])
    for name, value in BENCHMARK.hyperparameters.items():
        log.event(name, value)
    log.event(keys.TRAIN_SAMPLES, BENCHMARK.dataset.train_samples)
    log.event(keys.EVAL_SAMPLES, BENCHMARK.dataset.eval_samples)
    log.event(logkeys.DATASET, BENCHMARK.dataset.name, arrays=BENCHMARK.dataset.arrays)
    log.event(logkeys.ENVIRONMENT, "quiet", when="before", reasons=[])


def _evaluation(log: mllog.Log, predictions: list[int], samples: int, folder: Path, state: str) -> None:
    sha256 = evidence.write_predictions(folder / evidence.PREDICTIONS, predictions)
    evidence.keep_predictions(folder / evidence.PREDICTIONS, sha256)
    score = accuracy(predictions)
    metrics = {"accuracy": score}
    sums = {"predictions_sha256": sha256, "state_sha256": state}
    log.event(keys.EVAL_ACCURACY, score, samples_count=samples, metrics=metrics, **sums)
    log.stop(keys.EVAL_STOP, samples_count=samples)
