"""Writes what is known of a run before its implementation is built: the first files and the head of its log."""

from __future__ import annotations

import hashlib
import json

import yaml
from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import CONFIG, DATASET, IDENTITY, IMPLEMENTATION
from suite.harness.run import Run
from suite.record import evidence
from suite.store import code
from suite.store.arrays import sums
from suite.store.disk import write_atomically


def write(run: Run) -> None:
    """Write config.yaml, the files of the user's own implementation and system.json; log the submission, the
    configuration, the user's own implementation, seed, hyperparameters and data.
    """
    session, plan, log, folder = run.session, run.session.plan, run.log, run.folder
    benchmark, resolved, description = plan.benchmark, plan.resolved(run.index), session.description()
    config = yaml.safe_dump(resolved, sort_keys=False, allow_unicode=True).encode()
    write_atomically(folder / evidence.CONFIG, config)  # first: a killed run resumes from it
    if session.own:
        code.write(session.own.files, folder / code.CODE)
    write_atomically(folder / evidence.SYSTEM, json.dumps(description, indent=1).encode())
    arrays = sums(benchmark.dataset, session.data)  # before the caches are cleared: it may read the arrays
    log.event(keys.CACHE_CLEAR, session.clear_caches())
    log.start(keys.INIT_START)
    log.event(keys.SUBMISSION_BENCHMARK, benchmark.name)
    log.event(keys.SUBMISSION_ORG, plan.submitter)
    log.event(keys.SUBMISSION_DIVISION, plan.division)
    log.event(keys.SUBMISSION_STATUS, plan.status)
    log.event(keys.SUBMISSION_PLATFORM, plan.system.name)
    log.event(
        CONFIG,
        hashlib.sha256(config).hexdigest(),
        **{name: resolved[name] for name in IDENTITY},
        token=plan.token,
        system=plan.system.name,
        metric=benchmark.metric,
        metric_signature=benchmark.metric_signature,
        precision=plan.precision,
        cadence={**benchmark.evaluation.model_dump(), "budget_samples": benchmark.budget_samples},
        git_revision=description["git"]["revision"],
        git_dirty=description["git"]["dirty"],
        clock=log.clock.told(),
    )
    if plan.contestant:
        told = plan.contestant.model_dump()
        log.event(IMPLEMENTATION, told.pop("name"), **told)
    log.event(keys.SEED, plan.seeds[run.index - 1])
    for name, value in benchmark.hyperparameters.items():
        log.event(name, value)
    log.event(keys.TRAIN_SAMPLES, benchmark.dataset.train_samples)
    log.event(keys.EVAL_SAMPLES, benchmark.dataset.eval_samples)
    log.event(DATASET, benchmark.dataset.name, arrays=arrays)
