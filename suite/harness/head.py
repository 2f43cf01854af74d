"""What is known of a run before its implementation is built: the files that say it, and the head of its log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import CONFIG, DATASET, IDENTITY, IMPLEMENTATION
from suite.config.plan import Plan
from suite.record import evidence
from suite.record.mllog import Log
from suite.store import code
from suite.store.disk import write_atomically


def write_files(
    folder: Path, resolved: Mapping[str, Any], own: Mapping[str, bytes] | None, description: Mapping[str, Any]
) -> str:
    """Write config.yaml, the files of one's `own` implementation and system.json; the sha256 of config.yaml."""
    config = yaml.safe_dump(resolved, sort_keys=False, allow_unicode=True).encode()
    write_atomically(folder / evidence.CONFIG, config)  # first: from it a killed run goes on
    if own is not None:
        code.write(own, folder / code.CODE)
    write_atomically(folder / evidence.SYSTEM, json.dumps(description, indent=1).encode())
    return hashlib.sha256(config).hexdigest()


def write_log(
    log: Log, plan: Plan, index: int, resolved: Mapping[str, Any], config_sha256: str, git: Mapping[str, Any],
    data_sums: Mapping[str, str],
) -> None:  # fmt: skip
    """Log the submission, the configuration, whose code trains, seed, hyperparameters and data of run `index`.

    `data_sums` is the sha256 of each array.
    """
    benchmark = plan.benchmark
    log.start(keys.INIT_START)
    log.event(keys.SUBMISSION_BENCHMARK, benchmark.name)
    log.event(keys.SUBMISSION_ORG, plan.submitter)
    log.event(keys.SUBMISSION_DIVISION, plan.division)
    log.event(keys.SUBMISSION_STATUS, plan.status)
    log.event(keys.SUBMISSION_PLATFORM, plan.system.name)
    log.event(
        CONFIG,
        config_sha256,
        **{name: resolved[name] for name in IDENTITY},
        token=plan.token,
        system=plan.system.name,
        metric=benchmark.metric,
        metric_signature=benchmark.metric_signature,
        precision=plan.precision,
        cadence={**benchmark.evaluation.model_dump(), "budget_samples": benchmark.budget_samples},
        git_revision=git["revision"],
        git_dirty=git["dirty"],
        clock=log.clock.told(),
    )
    if plan.contestant:
        told = plan.contestant.model_dump()
        log.event(IMPLEMENTATION, told.pop("name"), **told)
    log.event(keys.SEED, plan.seeds[index - 1])
    for name, value in benchmark.hyperparameters.items():
        log.event(name, value)
    log.event(keys.TRAIN_SAMPLES, benchmark.dataset.train_samples)
    log.event(keys.EVAL_SAMPLES, benchmark.dataset.eval_samples)
    log.event(DATASET, benchmark.dataset.name, arrays=dict(data_sums))
