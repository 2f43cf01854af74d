"""One run from an empty, or an interrupted, evidence folder to a sealed one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from mlperf_logging.mllog import constants as keys
from rich.console import Console

from suite.config.logkeys import (
    COST,
    ENERGY,
    ENVIRONMENT,
    HEAD,
    IMPLEMENTATION_AFTER,
    RESTART,
    STATE,
    WITNESS,
)
from suite.config.plan import Plan
from suite.errors import BrokenContract, UserError
from suite.harness import checkpoint, contract, head
from suite.harness.cache import clear_cache
from suite.harness.checkpoint import Checkpoints
from suite.harness.contestant import OwnImplementation
from suite.harness.implementation import Device, ImplementationModule
from suite.harness.interrupt import Interrupted, interruptible
from suite.harness.loop import Loop
from suite.harness.seeds import evaluation_seed
from suite.measure import noise
from suite.measure.cost import cost, price_per_hour
from suite.measure.energy import energy, read_samples
from suite.measure.machine import Machine, power_ceiling
from suite.measure.noise import Environment
from suite.measure.sampler import Sampler
from suite.record import evidence, system
from suite.record.mllog import Line, Log, is_interrupt, run_stop, since_restart
from suite.record.parsing import differences
from suite.record.summary import Summary, summarise
from suite.record.terminal import Terminal
from suite.record.tracking import Follower
from suite.record.witness import Witness
from suite.store.task import Task, for_run, score

_MLFLOW_WAIT_S = 20.0  # before the clock starts, and after it has stopped


@dataclass
class Session:
    """What the runs of one plan have in common. `data` holds all arrays of the benchmark, the answers among them.

    `module` is of the implementation `own`, None for the reference.

    `stopped_by` is the signal that ended the last run, or came as it ended, for the command to end as well.
    """

    plan: Plan
    machine: Machine
    task: Task
    module: ImplementationModule
    data: Mapping[str, np.ndarray]
    console: Console
    mlflow: bool
    own: OwnImplementation | None = None
    _ended_ms: int = field(default=0, init=False)  # the last line of the run before, however the clock was set since
    stopped_by: int | None = field(default=None, init=False)

    def run(self, index: int) -> Summary:
        """Make, or go on with, run `index`, which counts from 1. One that no signal ended is left alone.

        Raises UserError when the folder cannot hold the run, Stopped for a signal before the clock has started.
        """
        folder = self.plan.folder(index)
        log = _open_log(folder, self._ended_ms)
        stop = run_stop(log.lines)
        if (folder / evidence.MANIFEST).exists():
            if stop is None or not is_interrupt(stop):
                self._ended_ms = log.lines[-1].time_ms
                return summarise(log.lines)
            (folder / evidence.MANIFEST).unlink()
        follower = Follower(folder) if self.mlflow else None
        self.stopped_by = _Run(self, index, folder, log, follower).finish()
        self._ended_ms = log.lines[-1].time_ms
        if follower and not follower.finish(_MLFLOW_WAIT_S):
            self.console.print(f"MLflow is behind; fill it in with: python -m suite.sync {folder}", soft_wrap=True)
        return summarise(log.lines)


def _open_log(folder: Path, not_before_ms: int) -> Log:
    path = folder / evidence.LOG
    try:
        folder.mkdir(parents=True, exist_ok=True)
        log = Log(path, not_before_ms)
        if not all(log.has(key) for key in HEAD):  # nothing was begun yet: begin afresh
            log.close()
            path.unlink()
            log = Log(path, not_before_ms)
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror}): choose another out=") from error
    return log


@dataclass
class _Run:
    session: Session
    index: int
    folder: Path
    log: Log
    follower: Follower | None
    sampler: Sampler = field(init=False)
    terminal: Terminal = field(init=False)
    witness: Witness | None = field(init=False)

    def __post_init__(self) -> None:
        plan, machine = self.session.plan, self.session.machine
        self.ceiling, self.price = power_ceiling(plan.system, machine), price_per_hour(plan.system, machine)
        self.sampler = Sampler(self.folder / evidence.POWER, self.log.now_ms, self.ceiling, plan.system.device_kind)
        runs = len(plan.seeds)
        what = plan.contestant.name if plan.contestant else plan.framework.name
        title = f"{plan.benchmark.name} {what}" + (f" run {self.index}/{runs}" if runs > 1 else "")
        currency = plan.system.price.currency if plan.system.price else None
        self.terminal = Terminal(self.session.console, title, plan.benchmark, self.price, currency, self.sampler.so_far)
        for line in self.log.lines:
            self.terminal.recall(line)
        self.log.listeners.append(self.terminal.line)
        self.witness = Witness(plan.witness, self.folder) if plan.witness else None
        if self.witness:
            self.log.listeners.append(self.witness.line)

    def finish(self) -> int | None:
        """Train, as far as that is not done, measure, and seal; the signal that came meanwhile, if any."""
        with self.terminal, interruptible() as interrupted:
            try:
                stop = run_stop(self.log.lines)
                if stop is None or is_interrupt(stop):
                    self.train(interrupted)
                since = since_restart(self.log.lines)
                if not any(line.key == ENVIRONMENT and line.metadata["when"] == "during" for line in since):
                    self.environment("during", noise.judge(read_samples(self.folder / evidence.POWER), {}, 1.0))
                stop = self.measure()
                self.log.close()
                if not is_interrupt(stop):
                    (self.folder / evidence.CHECKPOINT).unlink(missing_ok=True)
                evidence.seal(self.folder, self.log.head)
            except BrokenContract as error:
                raise UserError(f"{error} Mend that, then go on with resume={self.session.plan.out}") from error
            except OSError as error:
                out, problem = self.session.plan.out, error.strerror or error
                raise UserError(f"{self.folder}: {problem}; mend that, then go on with resume={out}") from error
        return interrupted.by

    def train(self, interrupted: Interrupted) -> None:
        """From a new implementation, or the last checkpoint, to run_stop."""
        plan, log, folder = self.session.plan, self.log, self.folder
        saved = self.restart() if log.lines else None
        if not log.lines:
            self.head()
        if self.follower:
            self.follower.start()
        seed = plan.seeds[self.index - 1]
        data = for_run(plan.benchmark, self.session.task, self.session.data, evaluation_seed(log.lines))
        device = Device(plan.system.device_kind, plan.precision)
        implementation = contract.build(self.session.module, plan.benchmark, data, seed, device)
        self.initial(implementation.state_dict())
        if saved:
            implementation.load_state_dict(saved[0])
        if self.follower:
            self.follower.wait_ready(_MLFLOW_WAIT_S)
        before = noise.before(self.session.machine)
        self.environment("before", before)
        self.sampler.start()
        loop = Loop(
            benchmark=plan.benchmark,
            implementation=implementation,
            data=data,
            score=lambda predictions: score(plan.benchmark, self.session.task, predictions, data),
            log=log,
            folder=folder,
            tick=self.terminal.tick,
            interrupted=interrupted,
            keep_states=plan.checkpoints == "keep",
        )
        if not log.has(keys.RUN_START):
            log.stop(keys.INIT_STOP)
            log.start(keys.RUN_START)
        interrupted.armed = True
        try:
            loop.run(saved[1] if saved else 0)
        finally:
            self.sampler.stop()
        samples = read_samples(folder / evidence.POWER)
        self.environment("during", noise.during(self.session.machine, before, samples))

    def initial(self, state: Mapping[str, np.ndarray]) -> None:
        """Log the sum of the state that each attempt begins from; make sure that there is room for states."""
        plan = self.session.plan
        keep = plan.checkpoints == "keep"
        checkpoint.reserve(self.folder, state, 1 + checkpoint.evaluations(plan.benchmark) if keep else 0)
        if not self.log.has(keys.RUN_START):
            checkpoints = Checkpoints(self.folder, keep)
            self.log.event(STATE, checkpoints.logged(state, 0), samples_count=0)

    def restart(self) -> tuple[dict[str, np.ndarray], int] | None:
        """Log that the run goes on, and return the last checkpoint's state and samples if there is one."""
        evaluations = [line for line in self.log.lines if line.key == keys.EVAL_ACCURACY]
        logged = evaluations[-1].metadata["predictions_sha256"] if evaluations else None
        evidence.keep_predictions(self.folder / evidence.PREDICTIONS, logged)
        saved = checkpoint.load(self.folder)
        began = json.loads((self.folder / evidence.SYSTEM).read_bytes())
        now = json.loads(json.dumps(self.description()))
        self.log.event(
            RESTART,
            sum(line.key == RESTART for line in self.log.lines) + 1,
            samples_count=saved[1] if saved else 0,
            lost_ms=self.log.now_ms() - self.log.lines[-1].time_ms,
            torn_bytes=self.log.torn_bytes,
            clock={**self.log.clock.told(), "source": self.log.clock.source, "passed_ms": self.log.clock.passed_ms},
            changed=[".".join(map(str, path)) for path, _, _ in differences(began, now)],
        )
        return saved

    def description(self) -> dict[str, Any]:
        """What system.json says of the machine, the software and the environment, as they are now."""
        plan = self.session.plan
        return system.describe(plan.system, self.session.machine, plan.framework, plan.declared, plan.contestant)

    def head(self) -> None:
        """Log and write everything that is known before the implementation is built."""
        plan, own = self.session.plan, self.session.own
        resolved, description = plan.resolved(self.index), self.description()
        sha256 = head.write_files(self.folder, resolved, own.files if own else None, description)
        self.log.event(keys.CACHE_CLEAR, clear_cache(self.session.data))
        head.write_log(self.log, plan, self.index, resolved, sha256, description["git"])

    def environment(self, when: str, found: Environment) -> None:
        """Log a verdict of the environment gate."""
        value = "noisy" if found.noisy else "quiet"
        self.log.event(ENVIRONMENT, value, when=when, reasons=list(found.reasons), **found.figures)

    def measure(self) -> Line:
        """Log energy and cost between run_start and run_stop, what became of the code, and who saw it; the latter."""
        log, price = self.log, self.session.plan.system.price
        start, stop = next(line for line in log.lines if line.key == keys.RUN_START), run_stop(log.lines)
        assert stop
        logged = {line.key for line in since_restart(log.lines)}
        if ENERGY not in logged:
            used = energy(read_samples(self.folder / evidence.POWER), start.time_ms, stop.time_ms, self.ceiling)
            log.event(ENERGY, used.joules, **{k: v for k, v in vars(used).items() if k != "joules"})
        if COST not in logged:
            source: dict[str, Any] = price.model_dump() if price else {"currency": None}
            seconds = (stop.time_ms - start.time_ms) / 1000
            log.event(COST, cost(self.price, seconds), price_per_hour=self.price, **source)
        if self.session.own and IMPLEMENTATION_AFTER not in logged:
            log.event(IMPLEMENTATION_AFTER, self.session.own.told.name, changed=self.session.own.changed())
        if self.witness and WITNESS not in logged:
            had = self.witness.finish()
            log.event(WITNESS, self.witness.host, **had, problems=self.witness.problems)
        return stop
