"""One run from an empty, or an interrupted, evidence folder to a sealed one."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import yaml
from mlperf_logging.mllog import constants as keys
from rich.console import Console

from suite.errors import UserError
from suite.harness import checkpoint
from suite.harness.implementation import Builder, Task
from suite.harness.loop import Loop
from suite.measure import noise
from suite.measure.cost import cost, price_per_hour
from suite.measure.energy import energy, read_samples
from suite.measure.machine import Machine, power_ceiling
from suite.measure.sampler import Sampler
from suite.plan import Plan
from suite.record import evidence, system
from suite.record.mllog import CONFIG, COST, DATASET, ENERGY, ENVIRONMENT, RESTART, Log
from suite.record.summary import Summary, summarise
from suite.record.terminal import Terminal
from suite.record.tracking import Follower


def run(
    plan: Plan,
    index: int,
    machine: Machine,
    task: Task,
    builder: Builder,
    data: Mapping[str, np.ndarray],
    console: Console,
    mlflow: bool,
) -> Summary:
    """Make, or go on with, run `index` of the plan and seal its evidence. A run that is already sealed is left alone.

    Raises UserError when the folder cannot hold the run, KeyboardInterrupt on Ctrl-C before the clock has started.
    """
    folder = plan.folder(index)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        log = Log(folder / evidence.LOG)
        if not log.has(keys.RUN_START):  # nothing was timed yet: begin afresh
            (folder / evidence.LOG).unlink()
            log = Log(folder / evidence.LOG)
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror}): choose another out=") from error
    if (folder / evidence.MANIFEST).exists():
        return summarise(log.lines)

    price = price_per_hour(plan.system, machine)
    ceiling = power_ceiling(plan.system, machine)
    sampler = Sampler(folder / evidence.POWER, log.now_ms, ceiling, plan.compute.device)
    follower = Follower(folder) if mlflow else None
    title = f"{plan.benchmark.name} {plan.framework.name}" + (
        f" run {index}/{len(plan.seeds)}" if len(plan.seeds) > 1 else ""
    )
    currency = plan.system.price.currency if plan.system.price else None
    terminal = Terminal(console, title, plan.benchmark, price, currency, sampler.so_far)
    log.listeners.append(terminal.line)

    with terminal, interruptible() as interrupted:
        try:
            if not log.has(keys.RUN_STOP):
                _train(plan, index, machine, task, builder, data, log, sampler, terminal, follower, interrupted)
            _measure(plan, log, ceiling, price)
        except OSError as error:
            raise UserError(
                f"{folder}: {error.strerror or error}; mend that, then go on with resume={plan.out}"
            ) from error
    log.close()
    evidence.seal(folder, log.head)
    if follower and not follower.finish(timeout_s=20):
        console.print(f"MLflow is behind; fill it in with: python -m suite.sync {folder}", soft_wrap=True)
    return summarise(log.lines)


def _train(
    plan: Plan,
    index: int,
    machine: Machine,
    task: Task,
    builder: Builder,
    data: Mapping[str, np.ndarray],
    log: Log,
    sampler: Sampler,
    terminal: Terminal,
    follower: Follower | None,
    interrupted: Interrupted,
) -> None:
    folder, benchmark = plan.folder(index), plan.benchmark
    if log.lines:
        last_ms, saved = log.lines[-1].time_ms, checkpoint.load(folder)
        samples = saved[1] if saved else 0
        restarts = sum(line.key == RESTART for line in log.lines) + 1
        log.event(RESTART, restarts, samples_count=samples, lost_ms=log.now_ms() - last_ms, torn_bytes=log.torn_bytes)
    else:
        saved, samples = None, 0
        _head(plan, index, machine, data, log)
    if follower:
        follower.start()

    visible = {name: array for name, array in data.items() if not name.startswith("answer_")}
    implementation = builder.build(benchmark.hyperparameters, visible, plan.seeds[index - 1], plan.compute)
    if saved:
        implementation.restore(saved[0])
    checkpoint.reserve(folder, implementation.state())
    if follower:
        follower.wait_ready(timeout_s=20)
    quiet = noise.before(machine)
    log.event(
        ENVIRONMENT, "noisy" if quiet.noisy else "quiet", when="before", reasons=list(quiet.reasons), **quiet.figures
    )
    sampler.start()
    loop = Loop(
        benchmark=benchmark,
        implementation=implementation,
        score=lambda predictions: task.score(predictions, data),
        log=log,
        folder=folder,
        tick=terminal.tick,
        interrupted=interrupted,
    )
    if not log.has(keys.RUN_START):
        log.stop(keys.INIT_STOP)
        log.start(keys.RUN_START)
    interrupted.armed = True
    try:
        loop.run(samples)
    finally:
        sampler.stop()
    during = noise.during(machine, quiet, read_samples(folder / evidence.POWER))
    log.event(
        ENVIRONMENT, "noisy" if during.noisy else "quiet", when="during", reasons=list(during.reasons), **during.figures
    )


def _head(plan: Plan, index: int, machine: Machine, data: Mapping[str, np.ndarray], log: Log) -> None:
    """Everything that is known before the implementation is built."""
    folder, benchmark, resolved = plan.folder(index), plan.benchmark, plan.resolved(index)
    config = yaml.safe_dump(resolved, sort_keys=False, allow_unicode=True).encode()
    description = system.describe(plan.system, machine, plan.framework, plan.submitter)
    evidence.write_atomically(folder / evidence.CONFIG, config)
    evidence.write_atomically(folder / evidence.SYSTEM, json.dumps(description, indent=1).encode())
    clear_cache(data)
    log.event(keys.CACHE_CLEAR, True)
    log.start(keys.INIT_START)
    log.event(keys.SUBMISSION_BENCHMARK, benchmark.name)
    log.event(keys.SUBMISSION_ORG, plan.submitter)
    log.event(keys.SUBMISSION_DIVISION, keys.CLOSED)
    log.event(keys.SUBMISSION_STATUS, keys.RESEARCH)
    log.event(keys.SUBMISSION_PLATFORM, plan.system.name)
    identity = ("run_id", "result_id", "run_index", "runs", "task", "scale", "framework")
    log.event(
        CONFIG,
        hashlib.sha256(config).hexdigest(),
        **{name: resolved[name] for name in identity},
        system=plan.system.name,
        git_revision=description["git"]["revision"],
        git_dirty=description["git"]["dirty"],
    )
    log.event(keys.SEED, plan.seeds[index - 1])
    for name, value in benchmark.hyperparameters.items():
        log.event(name, value)
    log.event(keys.TRAIN_SAMPLES, benchmark.dataset.train_samples)
    log.event(keys.EVAL_SAMPLES, benchmark.dataset.eval_samples)
    log.event(DATASET, benchmark.dataset.name, arrays=benchmark.dataset.arrays)


def _measure(plan: Plan, log: Log, ceiling: float | None, price: float | None) -> None:
    """Energy and cost between run_start and run_stop."""
    start = next(line.time_ms for line in log.lines if line.key == keys.RUN_START)
    stop = next(line.time_ms for line in log.lines if line.key == keys.RUN_STOP)
    if not log.has(ENERGY):
        samples = read_samples(log.path.parent / evidence.POWER)
        used = energy(samples, start, stop, ceiling)
        log.event(ENERGY, used.joules, **{k: v for k, v in vars(used).items() if k != "joules"})
    if not log.has(COST):
        source: dict[str, Any] = plan.system.price.model_dump() if plan.system.price else {"currency": None}
        log.event(COST, cost(price, (stop - start) / 1000), price_per_hour=price, **source)


def clear_cache(data: Mapping[str, np.ndarray]) -> None:
    """Drop the prepared arrays from this process's memory and from the page cache, so that a run reads them afresh."""
    for array in data.values():
        mapping = getattr(array, "_mmap", None)
        if isinstance(array, np.memmap) and mapping is not None and array.filename is not None:
            mapping.madvise(mmap.MADV_DONTNEED)
            descriptor = os.open(array.filename, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


class Interrupted:
    """Tells whether Ctrl-C was pressed. While `armed`, the first press only sets it, so that the run ends cleanly."""

    def __init__(self) -> None:
        self.armed = False
        self._pressed = False

    def __call__(self) -> bool:
        """Whether it was pressed."""
        return self._pressed

    def press(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGINT."""
        if self._pressed or not self.armed:
            raise KeyboardInterrupt
        self._pressed = True


@contextmanager
def interruptible() -> Iterator[Interrupted]:
    """Ctrl-C as a question that the loop asks, for as long as the block lasts."""
    interrupted = Interrupted()
    before = signal.signal(signal.SIGINT, interrupted.press)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)
