"""A run's training: from a new implementation, or the last checkpoint, to run_stop."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import yaml
from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import DATASET, RESTART, STATE
from suite.errors import UserError
from suite.harness import begun, checkpoint, contract, head
from suite.harness.checkpoint import Checkpoints
from suite.harness.contract import Checked
from suite.harness.implementation import Device
from suite.harness.interrupt import Interrupted
from suite.harness.loop import Loop
from suite.harness.memory import let_go
from suite.harness.run import Run
from suite.harness.seeds import evaluation_seed
from suite.harness.workers import watching
from suite.harness.workers.led import Led
from suite.measure import noise
from suite.measure.samples import read_samples
from suite.record import evidence, tracking
from suite.record.mllog import samples_of, since_restart
from suite.store.arrays import sums
from suite.store.disk import sync
from suite.store.task import for_run, score


def train(run: Run, interrupted: Interrupted) -> None:
    """Begin the run, or go on with it, and train until the loop ends."""
    session, plan, log, folder = run.session, run.session.plan, run.log, run.folder
    saved = None
    if log.lines:
        _check_data(run)
        saved = _restart(run)
    else:
        head.write(run)
    if run.tracker:
        run.tracker.start()
    data = for_run(plan.benchmark, session.task, session.data, evaluation_seed(log.lines))
    implementation = _build(run, data)
    checkpoints = Checkpoints(folder, log, plan.checkpoints == "keep")
    _initial(run, checkpoints, implementation.state_dict())
    if saved:
        implementation.load_state_dict(saved[0])
    if run.tracker and not log.has(keys.RUN_START):  # else its clock runs already
        run.tracker.wait_ready(tracking.WAIT_S)
    before = noise.before(session.machine, session.workers)
    followers = session.followers
    run.environment("before", noise.together(before, watching.before(followers) if followers else {}))
    loop = Loop(
        benchmark=plan.benchmark,
        implementation=implementation,
        data=data,
        score=lambda predictions: score(plan.benchmark, session.task, predictions, data),
        log=log,
        folder=folder,
        checkpoints=checkpoints,
        tick=run.terminal.tick,
        interrupted=interrupted,
    )
    run.sampler.start()
    try:
        if followers:
            watching.start(followers, plan.system.device_kind, log.now_ms, run.sampler.add)
        if not log.has(keys.RUN_START):
            log.stop(keys.INIT_STOP)
            log.sync()
            sync(folder)
            log.start(keys.RUN_START)
        interrupted.arm()
        loop.run(saved[1] if saved else 0)
        elsewhere = watching.stop(followers) if followers else {}
    finally:
        run.sampler.stop()
    during = noise.during(session.machine, before, read_samples(folder / evidence.POWER))
    run.environment("during", noise.together(during, elsewhere))


def _check_data(run: Run) -> None:
    """Raise UserError unless the data are those that the run was begun with, by the sums in its log."""
    dataset = run.session.plan.benchmark.dataset
    told = next(line for line in run.log.lines if line.key == DATASET).metadata["arrays"]
    here = sums(dataset, run.session.data)
    if strays := [name for name in here if told.get(name) != here[name]]:
        raise UserError(
            f"{strays[0]} of {dataset.name} is not what the run was begun with, by the sum in its log: name the folder "
            "of that data with data_dir=, or begin a new run with another out="
        )


def _restart(run: Run) -> tuple[dict[str, np.ndarray], int] | None:
    """Log the restart, unseal the evidence, and return the last checkpoint's state and samples if there is one."""
    log, folder, system = run.log, run.folder, run.session.plan.system
    evaluations = [line for line in log.lines if line.key == keys.EVAL_ACCURACY]
    logged = evaluations[-1].metadata["predictions_sha256"] if evaluations else None
    evidence.keep_predictions(folder / evidence.PREDICTIONS, logged)
    told = [samples_of(line) or 0 for line in since_restart(log.lines)]
    saved = checkpoint.load(folder, max(told))
    before = yaml.safe_load((folder / evidence.CONFIG).read_bytes())["system"]
    workers = [] if before.get("workers") == system.workers else ["workers"]
    log.event(
        RESTART,
        sum(line.key == RESTART for line in log.lines) + 1,
        samples_count=saved[1] if saved else 0,
        lost_ms=log.now_ms() - log.lines[-1].time_ms,
        torn_bytes=log.torn_bytes,
        clock={**log.clock.told(), "source": log.clock.source, "passed_ms": log.clock.passed_ms},
        changed=begun.changed(folder, run.session.description()) + workers,
        workers=system.world_size,
    )
    (folder / evidence.MANIFEST).unlink(missing_ok=True)
    return saved


def _build(run: Run, data: Mapping[str, np.ndarray]) -> Checked | Led:
    """Build the implementation, and those of the followers if there are any."""
    session, plan, followers = run.session, run.session.plan, run.session.followers
    seed, kind, precision = plan.seeds[run.index - 1], plan.system.device_kind, plan.precision
    memory_gb = plan.system.memory_gb
    device = Device(kind, precision, addresses=followers.addresses if followers else (), memory_gb=memory_gb)

    def own() -> Checked:
        let_go(kind)  # what the previous run built
        return contract.build(session.module, plan.benchmark, data, seed, device)

    if followers is None:
        return own()
    followers.advice = f"; go on with {session.resume}"
    drawn_from = evaluation_seed(run.log.lines)
    told = {"device": kind, "precision": precision, "memory_gb": memory_gb}
    return Led.build(own, followers, seed=seed, evaluation_seed=drawn_from, **told)


def _initial(run: Run, checkpoints: Checkpoints, state: Mapping[str, np.ndarray]) -> None:
    """Make sure that there is room for states; log the sha256 of the initial state unless the clock has started."""
    kept = 1 + checkpoint.evaluations(run.session.plan.benchmark) if checkpoints.keep else 0
    checkpoint.reserve(run.folder, state, kept)
    if not run.log.has(keys.RUN_START):
        run.log.event(STATE, checkpoints.logged(state, 0), samples_count=0)
