"""Training one block again in a process of its own, and the results."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from suite.audit.process import Failed, Process
from suite.audit.subject import Claim, Run
from suite.errors import BadPrediction, BrokenContract, UserError
from suite.harness import contract
from suite.harness.implementation import TrainStats
from suite.harness.seeds import evaluation_seed
from suite.record import states
from suite.record.evidence import PREDICTIONS
from suite.record.parsing import MalformedError, number, whole
from suite.record.states import BadState, State, state_sha256
from suite.rules import contents
from suite.rules.implementation import contestant_of
from suite.rules.reading import LIMITS
from suite.store import files
from suite.store.code import CODE
from suite.store.disk import UnsafeFile, read_safely
from suite.store.task import Arrays, Task, for_run, score


class NotLogged(Failed):
    """A kept state is not the one whose sum the run logged."""


MAX_STATE = 4 << 30  # bytes
LIMIT_S = 4 * 3600.0  # for each answer of the process
EVALUATION = "evaluation"  # the folder of arrays that a process is given to predict
REPEATED_S = 10.0  # a block is trained up to three times until it took this long: the first time also warms up


@dataclass(frozen=True)
class Means:
    """What an audit trains with: the code, the data with its answers, and how.

    `framework` and `precision` are None for the run's own. `memory_gb` is that of this machine's accelerators. `hidden`
    are those of `Process`. `place` is the folder in which the process gets its own; None is the default.
    """

    code: Path
    task: Task
    data: Mapping[str, np.ndarray]
    kind: str
    memory_gb: float | None = None
    framework: str | None = None
    precision: str | None = None
    hidden: Sequence[Path] | None = ()
    place: Path | None = None


@dataclass(frozen=True)
class Predicted:
    """The predictions of a state, with the sha256 of their file and their metrics."""

    sha256: str
    predictions: Sequence[Any]
    metrics: dict[str, float]


@dataclass
class Replay:
    """A block as the auditor's machine trained it.

    `begin` and `before` are the samples and the state from which it trained: those of `claim.before`, or the initial
    ones if that state is not at hand. `initial` and `after` are its own states, `kept_initial` and `kept` the run's.
    `predicted` comes from `after`, `kept_predicted` from `kept`. `repeats` tells if training twice gave the same bits.
    """

    run: Run
    claim: Claim
    begin: int = 0
    initial: State = field(default_factory=dict)
    kept_initial: State | None = None
    before: State = field(default_factory=dict)
    after: State = field(default_factory=dict)
    kept: State | None = None
    samples: int = 0
    loss: float | None = None
    seconds: float = 0.0
    repeats: bool | None = None
    predicted: Predicted | None = None
    kept_predicted: Predicted | None = None

    @property
    def claimed_seconds(self) -> float | None:
        """The time that the run claims from `begin` to the evaluation at the block's end; None if it does not say."""
        parts = [each.seconds for each in self.run.claims if self.begin < each.after <= self.claim.after]
        return None if None in parts else sum(each for each in parts if each is not None)


def initial_state(run: Run, means: Means) -> State:
    """The state that the run's seed begins with, built on this machine. Raises Failed."""
    with started(run, means) as process:
        return saved(process)


def kept_initial(run: Run) -> State | None:
    """The initial state that the run kept, None if there is none. Raises Failed."""
    return _kept(run, 0, run.initial_sha256)


def replay(run: Run, claim: Claim, means: Means, like: bool) -> Replay:
    """Train a block again. On a machine `like` the run's other bits than the run's take a second time, to see whether
    it repeats itself.

    Raises Failed for code that fails to, and for kept states that cannot be used.
    """
    made = Replay(run, claim)
    made.kept_initial = kept_initial(run)
    before = made.kept_initial if claim.before == 0 else _kept(run, claim.before, claim.before_sha256)
    made.kept = _kept(run, claim.after, claim.after_sha256)
    with started(run, means) as process:
        made.initial = saved(process)
        made.begin = claim.before if before is not None else 0
        made.before = before if before is not None else made.initial
        data = data_of(run, means)
        give_evaluation(process, data)
        with suppress(Failed):  # the state has learnt nothing; the first time also warms up
            read_predictions(process)
        passes: list[float] = []
        while True:
            began = process.asked_s
            load(process, made.before)
            stats = train(process, claim.after)
            process.ask("state")  # it may have put off its training until now
            passes.append(process.asked_s - began)
            state = saved(process)
            if len(passes) > 1:
                made.repeats = made.repeats is not False and state_sha256(state) == state_sha256(made.after)
            made.after, made.samples, made.loss = state, stats.samples, stats.loss
            enough = sum(passes) > REPEATED_S and (len(passes) > 1 or (made.kept is not None and not like))
            if len(passes) == 3 or enough or (passes[0] > REPEATED_S and state_sha256(state) == claim.after_sha256):
                break
        began = process.asked_s
        made.predicted = _predicted(process, run, means.task, data)
        made.seconds = min(passes) + process.asked_s - began
        if made.kept is not None:
            load(process, made.kept)
            made.kept_predicted = _predicted(process, run, means.task, data)
    return made


@contextmanager
def started(
    run: Run, means: Means, hyperparameters: Mapping[str, Any] | None = None, reference: bool = False
) -> Iterator[Process]:
    """A process in a new folder that has built the implementation of a run. Raises Failed, UserError.

    If given, `hyperparameters` replace the run's. `reference` builds the reference, whatever the run was trained with.
    """
    framework, _, precision, own_hyperparameters = run.configuration
    own = not reference and contestant_of(run.evidence) is not None
    with (
        tempfile.TemporaryDirectory(prefix="suite-audit-", dir=means.place) as name,
        Process(means.code, Path(name), LIMIT_S, means.hidden) as process,
    ):
        process.ask(
            "build",
            task=run.benchmark.task,
            scale=run.benchmark.scale,
            framework=means.framework or framework,
            own=str(means.code / CODE) if own else None,
            hyperparameters=own_hyperparameters if hyperparameters is None else dict(hyperparameters),
            seed=run.seed,
            kind=means.kind,
            precision=means.precision or precision,
            memory_gb=means.memory_gb,
            training=_give(process, "training", contract.training_data(means.data)),
        )
        yield process


def give_evaluation(process: Process, data: Mapping[str, np.ndarray]) -> None:
    """Give a process the evaluation arrays of `data`, once, without the answers."""
    if not (process.given / EVALUATION).exists():
        _give(process, EVALUATION, contract.evaluation_data(data))


def _give(process: Process, name: str, arrays: Mapping[str, np.ndarray]) -> str:
    """Write the arrays for a process to a folder and return it. Raises UserError if its disk has no room for them."""
    folder = process.given / name
    folder.mkdir()
    need, free = sum(array.nbytes for array in arrays.values()), files.free_bytes(folder)
    if need > free:
        raise UserError(
            f"{need / 1e9:.1f} GB of arrays are copied to {folder}, which has {free / 1e9:.1f} GB free: "
            "name a folder on a larger disk as TMPDIR"
        )
    for each, array in arrays.items():
        np.save(folder / f"{each}.npy", array, allow_pickle=False)
    return str(folder)


def _kept(run: Run, samples: int, sha256: str | None) -> State | None:
    """The state that the run kept, None if there is none. Raises Failed for one that is not the logged one."""
    path = run.kept(samples)
    if path is None:
        return None
    try:
        state, _ = states.read_safely(path, MAX_STATE)
    except (BadState, OSError) as error:
        raise Failed(f"the state kept after {samples} samples cannot be read: {error}") from error
    if state_sha256(state) != sha256:
        raise NotLogged(f"the state kept after {samples} samples is not the one whose sum the log has")
    return state


def train(process: Process, to: int) -> TrainStats:
    """Train the implementation of a process until `to` samples. Raises Failed, also for an answer without a count."""
    told = process.ask("train", to=to)
    if (counted := whole(told.get("samples"))) is None:
        raise Failed("train: an answer without a count of samples")
    return TrainStats(counted, number(told.get("loss")))


def load(process: Process, state: State) -> None:
    """Let the implementation of a process take over a state. Raises Failed."""
    states.write(process.given / "state.npz", state, 0)
    process.ask("load", state=str(process.given / "state.npz"))


def saved(process: Process) -> State:
    """The state of the implementation of a process. Raises Failed, also for a file that is no state."""
    process.ask("save", state=str(process.scratch / "state.npz"))
    try:
        return states.read_safely(process.scratch / "state.npz", MAX_STATE)[0]
    except (BadState, OSError) as error:
        raise Failed(f"save: {error}") from error


def data_of(run: Run, means: Means) -> Arrays:
    """All arrays of the run, including those that are drawn for it alone. Raises Failed."""
    try:
        return for_run(run.benchmark, means.task, means.data, evaluation_seed(run.evidence.lines))
    except (BadPrediction, BrokenContract) as error:
        raise Failed(str(error)) from error


def read_predictions(process: Process) -> tuple[bytes, list[Any]]:
    """The content of the predictions file that a process writes, and the predictions in it. Raises Failed."""
    path = process.scratch / PREDICTIONS
    process.ask("predict", evaluation=str(process.given / EVALUATION), predictions=str(path))
    try:
        content = read_safely(path, LIMITS[PREDICTIONS][0])
        return content, contents.predictions(content)
    except (UnsafeFile, OSError, MalformedError) as error:
        raise Failed(f"predict: {error}") from error


def _predicted(process: Process, run: Run, task: Task, data: Arrays) -> Predicted:
    """The predictions of the state that a process holds. Raises Failed."""
    content, predictions = read_predictions(process)
    try:
        metrics: dict[str, float] = score(run.benchmark, task, predictions, data)
    except (BadPrediction, BrokenContract) as error:
        raise Failed(f"predict: {error}") from error
    return Predicted(hashlib.sha256(content).hexdigest(), predictions, metrics)
