"""One run from an empty, or an interrupted, evidence folder to a sealed one."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml
from mlperf_logging.mllog import constants as keys
from rich.console import Console

from suite.config.logkeys import ENVIRONMENT, RESTART, STATE
from suite.config.plan import Plan
from suite.errors import BrokenContract, UserError, WorkerLost
from suite.harness import begun, checkpoint, contract, head, tail
from suite.harness.cache import clear_cache
from suite.harness.checkpoint import Checkpoints
from suite.harness.contestant import OwnImplementation
from suite.harness.contract import Checked
from suite.harness.implementation import Device, ImplementationModule
from suite.harness.interrupt import Interrupted, interruptible
from suite.harness.loop import Loop
from suite.harness.memory import let_go
from suite.harness.seeds import evaluation_seed
from suite.harness.workers import watching
from suite.harness.workers.leading import Followers
from suite.harness.workers.led import Led
from suite.measure import noise
from suite.measure.cost import price_per_hour
from suite.measure.machine import Machine
from suite.measure.noise import Environment
from suite.measure.sampler import Sampler
from suite.measure.samples import SamplesError, header, read_samples
from suite.measure.systems import power_ceiling
from suite.record import evidence, system
from suite.record.mllog import Log, is_interrupt, run_stop, samples_of, since_restart
from suite.record.summary import Summary, summarise
from suite.record.terminal import Terminal
from suite.record.tracking import Tracker
from suite.store.arrays import sums
from suite.store.disk import sync, write_atomically
from suite.store.task import Task, for_run, score

if TYPE_CHECKING:
    from suite.record.witness import Witness

_MLFLOW_WAIT_S = 20.0  # before the clock starts, and after it has stopped


@dataclass
class Session:
    """What the runs of one plan have in common. `data` holds all arrays of the benchmark, the answers among them.

    `module` is of the implementation `own`, None for the reference. `followers` are the other workers, if any.
    `resume` are the options of a command that goes on with them.

    `stopped_by` is the signal that ended the last run, or came as it ended, for the command to end as well.
    """

    plan: Plan
    machine: Machine
    task: Task
    module: ImplementationModule
    data: Mapping[str, np.ndarray]
    console: Console
    mlflow: bool
    resume: str
    own: OwnImplementation | None = None
    followers: Followers | None = None
    _ended_ms: int = field(default=0, init=False)  # the last line of the run before, however the clock was set since
    stopped_by: int | None = field(default=None, init=False)

    def run(self, index: int) -> Summary:
        """Make, or go on with, run `index`, which counts from 1. One that no signal ended is left alone.

        Raises UserError when the folder cannot hold the run, Stopped for a signal before the clock has started.
        """
        folder = self.plan.folder(index).absolute()
        log = begun.open_log(folder, self._ended_ms)
        stop = run_stop(log.lines)
        if (folder / evidence.MANIFEST).exists():
            if stop is None or not is_interrupt(stop):
                self._ended_ms = log.lines[-1].time_ms
                return summarise(log.lines)
            (folder / evidence.MANIFEST).unlink()
        tracker = Tracker(folder) if self.mlflow else None
        self.stopped_by = _Run(self, index, folder, log, tracker).finish()
        self._ended_ms = log.lines[-1].time_ms
        if tracker and not tracker.finish(_MLFLOW_WAIT_S):
            quoted = shlex.quote(str(folder))
            self.console.print(f"MLflow is behind; fill it in with: python -m suite.sync {quoted}", soft_wrap=True)
        return summarise(log.lines)

    def clear_caches(self) -> bool:
        """Drop the data from the memory of all workers, and of their nodes; False where a system offers no way to.

        The last worker of a node does it for all: what one of them still maps stays.
        """
        if self.followers is None:
            return clear_cache(self.data)
        self.followers.tell("clear_cache")
        own, others = self.followers.with_own(lambda: clear_cache(self.data))
        return own and all(each["cleared"] for each in others)


@dataclass
class _Run:
    session: Session
    index: int
    folder: Path
    log: Log
    tracker: Tracker | None
    sampler: Sampler = field(init=False)
    terminal: Terminal = field(init=False)
    machine: Machine = field(init=False)  # as a review knows it, which derives cost and energy again
    witness: Witness | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        plan, now = self.session.plan, self.session.machine
        self.machine = begun.machine(self.folder, now) if self.log.lines else now
        self.advice = f"; go on with {self.session.resume}"
        self.workers = self.session.followers.processes(0) if self.session.followers else []
        power, ceiling = self.folder / evidence.POWER, power_ceiling(plan.system, self.machine)
        kind, nodes = plan.system.device_kind, plan.system.nodes
        self.sampler = Sampler(power, self.log.now_ms, ceiling, kind, self.workers, nodes)
        runs = len(plan.seeds)
        what = plan.contestant.name if plan.contestant else plan.framework.name
        title = f"{plan.benchmark.name} {what}" + (f" run {self.index}/{runs}" if runs > 1 else "")
        price = price_per_hour(plan.system, self.machine)
        currency = plan.system.price.currency if plan.system.price else None
        energy, now_ms = self.sampler.so_far, self.log.now_ms
        self.terminal = Terminal(self.session.console, title, plan.benchmark, price, currency, energy, now_ms)
        for line in self.log.lines:
            self.terminal.recall(line)
        self.log.listeners.append(self.terminal.line)
        if plan.witness:
            from suite.record import witness  # where it is used: it takes 0.2 s to import

            self.witness = witness.Witness(plan.witness, self.folder)
            self.log.listeners.append(self.witness.line)

    def finish(self) -> int | None:
        """Train, as far as that is not done, measure, and seal; the signal that came meanwhile, if any."""
        resume = self.session.resume
        mend = f"mend that, then go on with {resume}"
        other = ", or with other code begin a new run" if self.session.own else ""
        with self.terminal, interruptible() as interrupted, chdir(Path.cwd()):  # which the author's code may leave
            try:
                stop = run_stop(self.log.lines)
                if stop is None or is_interrupt(stop):
                    self.train(interrupted)
                power, system = self.folder / evidence.POWER, self.session.plan.system
                if not power.exists():  # deleted, for it was damaged
                    write_atomically(power, f"{header(system.nodes)}\n".encode())
                since = since_restart(self.log.lines)
                if not any(line.key == ENVIRONMENT and line.metadata["when"] == "during" for line in since):
                    self.environment("during", noise.judge(read_samples(power), {}, 1.0))
                stop = tail.write_log(self.log, system, self.machine, power, self.session.own, self.witness)
                self.log.close()
                if not is_interrupt(stop):
                    checkpoint.remove(self.folder)
                evidence.seal(self.folder, self.log.head)
            except WorkerLost as error:
                raise WorkerLost(f"{error}{self.advice}") from error
            except BrokenContract as error:
                again = f"Mend that, then go on with {resume}"
                raise UserError(f"{error} {'Mend that, and begin a new run' if self.session.own else again}") from error
            except contract.Refused as error:
                raise UserError(f"{error}; {mend}{other}") from error
            except SamplesError as error:
                raise UserError(f"{self.session.plan.folder(self.index) / evidence.POWER}: {error}; {mend}") from error
            except OSError as error:
                folder, problem = self.session.plan.folder(self.index), error.strerror or error
                raise UserError(f"{folder}: {problem}; {mend}") from error
            except Exception as error:  # the author's code may raise anything
                error.add_note(f"{mend}{other}")
                raise
        return interrupted.by

    def train(self, interrupted: Interrupted) -> None:
        """From a new implementation, or the last checkpoint, to run_stop."""
        plan, log, folder = self.session.plan, self.log, self.folder
        saved = self.restart() if log.lines else None
        if not log.lines:
            self.head()
        if self.tracker:
            self.tracker.start()
        data = for_run(plan.benchmark, self.session.task, self.session.data, evaluation_seed(log.lines))
        implementation = self.build(data)
        self.initial(implementation.state_dict())
        if saved:
            implementation.load_state_dict(saved[0])
        if self.tracker:
            self.tracker.wait_ready(_MLFLOW_WAIT_S)
        before = noise.before(self.session.machine, self.workers)
        followers = self.session.followers
        self.environment("before", noise.together(before, watching.before(followers) if followers else {}))
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
        self.sampler.start()
        try:
            if followers:
                watching.start(followers, plan.system.device_kind, log.now_ms, self.sampler.add)
            if not log.has(keys.RUN_START):
                log.stop(keys.INIT_STOP)
                log.sync()
                sync(folder)
                log.start(keys.RUN_START)
            interrupted.arm()
            loop.run(saved[1] if saved else 0)
            elsewhere = watching.stop(followers) if followers else {}
        finally:
            self.sampler.stop()
        during = noise.during(self.session.machine, before, read_samples(folder / evidence.POWER))
        self.environment("during", noise.together(during, elsewhere))

    def build(self, data: Mapping[str, np.ndarray]) -> Checked | Led:
        """The implementation; where others follow, theirs as well."""
        plan, followers = self.session.plan, self.session.followers
        seed, kind, precision = plan.seeds[self.index - 1], plan.system.device_kind, plan.precision
        memory_gb = plan.system.memory_gb
        device = Device(kind, precision, addresses=followers.addresses if followers else (), memory_gb=memory_gb)

        def own() -> Checked:
            let_go(kind)  # what the run before built
            return contract.build(self.session.module, plan.benchmark, data, seed, device)

        if followers is None:
            return own()
        followers.advice = self.advice
        drawn_from = evaluation_seed(self.log.lines)
        told = {"device": kind, "precision": precision, "memory_gb": memory_gb}
        return Led.build(own, followers, seed=seed, evaluation_seed=drawn_from, **told)

    def initial(self, state: Mapping[str, np.ndarray]) -> None:
        """Log the sum of the state that each attempt begins from; make sure that there is room for states."""
        plan = self.session.plan
        keep = plan.checkpoints == "keep"
        checkpoint.reserve(self.folder, state, 1 + checkpoint.evaluations(plan.benchmark) if keep else 0)
        if not self.log.has(keys.RUN_START):
            checkpoints = Checkpoints(self.folder, self.log, keep)
            self.log.event(STATE, checkpoints.logged(state, 0), samples_count=0)

    def restart(self) -> tuple[dict[str, np.ndarray], int] | None:
        """Log that the run goes on, and return the last checkpoint's state and samples if there is one."""
        evaluations = [line for line in self.log.lines if line.key == keys.EVAL_ACCURACY]
        logged = evaluations[-1].metadata["predictions_sha256"] if evaluations else None
        evidence.keep_predictions(self.folder / evidence.PREDICTIONS, logged)
        told = [samples_of(line) or 0 for line in since_restart(self.log.lines)]
        saved = checkpoint.load(self.folder, max(told))
        system = yaml.safe_load((self.folder / evidence.CONFIG).read_bytes())["system"]
        workers = [] if system.get("workers") == self.session.plan.system.workers else ["workers"]
        self.log.event(
            RESTART,
            sum(line.key == RESTART for line in self.log.lines) + 1,
            samples_count=saved[1] if saved else 0,
            lost_ms=self.log.now_ms() - self.log.lines[-1].time_ms,
            torn_bytes=self.log.torn_bytes,
            clock={**self.log.clock.told(), "source": self.log.clock.source, "passed_ms": self.log.clock.passed_ms},
            changed=begun.changed(self.folder, self.description()) + workers,
            workers=self.session.plan.system.world_size,
        )
        return saved

    def description(self) -> dict[str, Any]:
        """What system.json says of the machine, the software and the environment, as they are now."""
        plan = self.session.plan
        described = system.describe(plan.system, self.session.machine, plan.framework, plan.declared, plan.contestant)
        others = self.session.followers.machines() if self.session.followers else []
        return {**described, **({"other_nodes": others} if others else {})}

    def head(self) -> None:
        """Log and write everything that is known before the implementation is built."""
        plan, own = self.session.plan, self.session.own
        resolved, description = plan.resolved(self.index), self.description()
        sha256 = head.write_files(self.folder, resolved, own.files if own else None, description)
        data_sums = sums(plan.benchmark.dataset, self.session.data)  # which may read them
        self.log.event(keys.CACHE_CLEAR, self.session.clear_caches())
        head.write_log(self.log, plan, self.index, resolved, sha256, description["git"], data_sums)

    def environment(self, when: str, found: Environment) -> None:
        """Log a verdict of the environment gate."""
        value = "noisy" if found.noisy else "quiet"
        self.log.event(ENVIRONMENT, value, when=when, reasons=list(found.reasons), **found.figures)
