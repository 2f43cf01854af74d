"""Checks of the chapter "Audit" that need the training: they compare a block, trained again, with what its run claims.

The bounds were found with honest runs on other thread counts, precisions and frameworks, and with lowered learning
rates; `docs/reviewing.md` has the figures. They pass most honest runs on any machine, but fail runs on a like machine
only: elsewhere, rounding can lead honest training as far away as false training.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from suite.audit.replaying import Replay
from suite.audit.subject import Run
from suite.record.evidence import LOG, PREDICTIONS
from suite.record.parsing import close, number
from suite.record.predictions import differing
from suite.record.states import State, state_sha256
from suite.rules.finding import Checks, Finding

MAX_INITIAL = 1e-4  # of the initial state's norm: rounding of what is drawn
MAX_DISTANCE = 0.55  # of the block's way; two rounded trajectories part, but stay nearer than this
MAX_STRETCH = 0.02  # how much longer or shorter the way may be
MAX_OTHER_STRETCH = 0.15  # by the measure that is farther from 0; large arrays hide what the small ones do
MAX_METRIC = 0.005  # of the metric, or of 1 if it is smaller: predictions of one state, rounded differently
MAX_OTHERS = 0.02  # share of the last evaluation's predictions: one state's, rounded differently
SLOWER, MUCH_SLOWER = 1.5, 3.0  # times the claimed time, on the same kind of system: noted, and not believed
LEAST_S = 0.5  # a block that takes less says nothing of the speed

_TRAIN = "submit what the suite's training made, with the code that the run names"
_ALIKE = "audit on a machine like the run's, with its framework, precision and threads: from here it cannot be told"
_STATES = "ask the submitter for the states, and give them: states=FOLDER"


@dataclass(frozen=True)
class Compared:
    """A replay, why the auditor's machine cannot give the same bits (empty if it can), and what disturbed its time."""

    replay: Replay
    unlike: tuple[str, ...]
    noise: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether the auditor's state is the claimed one, bit for bit."""
        return state_sha256(self.replay.after) == self.replay.claim.after_sha256

    @property
    def way(self) -> Way | None:
        """How far apart the claimed and the trained state are; None unless the states before and after are at hand."""
        made = self.replay
        if made.kept is None or made.begin != made.claim.before:
            return None
        return way(made.before, made.kept, made.after)


@dataclass(frozen=True)
class Way:
    """A comparison of two trainings from one state, over their floating-point arrays.

    `distance` is the Euclidean distance of their ends over the length of the first one's way, all elements together.
    `stretch` is how much longer the second one's way is than the first one's: over all elements together or as the
    median over the arrays, whichever is nearer to 0. `other` is the other of the two. Rounding turns a way but hardly
    changes its length; another learning rate changes the length.
    """

    distance: float
    stretch: float
    other: float

    @property
    def near(self) -> bool:
        """Whether rounding explains how far the two are apart."""
        bounded = abs(self.stretch) <= MAX_STRETCH and abs(self.other) <= MAX_OTHER_STRETCH
        return bounded and self.distance <= MAX_DISTANCE


def way(before: State, claimed: State, trained: State) -> Way:
    """How the way from `before` to `trained` compares with that to `claimed`."""
    if not _form(before) == _form(claimed) == _form(trained):
        return Way(math.inf, math.inf, math.inf)
    names = [name for name, array in claimed.items() if array.dtype.kind == "f"]
    moved = [name for name in names if _norm(before, claimed, [name]) > 0]
    claims = _norm(before, claimed, names)
    if not moved or not math.isfinite(claims):
        return Way(math.inf, math.inf, math.inf)
    stretches = [_norm(before, trained, [name]) / _norm(before, claimed, [name]) - 1 for name in moved]
    whole, median = _norm(before, trained, names) / claims - 1, float(np.median(stretches))
    return Way(_norm(claimed, trained, names) / claims, *sorted((whole, median), key=abs))


def _form(state: State) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and kind of each array: where these are alike, states can be compared."""
    return {name: (array.shape, array.dtype.kind) for name, array in state.items()}


def _norm(a: State, b: State | None, names: Iterable[str]) -> float:
    """The Euclidean norm of the arrays `names` of `a`, less those of `b`."""
    ours = ((a[name].astype(np.float64), b[name].astype(np.float64) if b else 0.0) for name in names)
    return math.sqrt(sum(float(np.sum(np.square(each - other))) for each, other in ours))


AUDIT: Checks[Compared] = Checks()


@AUDIT.rule("audit.3")
def begins_as_its_seed(block: Compared) -> Iterator[Finding]:
    """Training began from the state that the seed gives."""
    made = block.replay
    found = state_sha256(made.initial)
    if found != made.run.initial_sha256:
        yield from initial(made.run, made.initial, made.kept_initial, block.unlike)


def initial(run: Run, built: State, kept: State | None, unlike: tuple[str, ...]) -> Iterator[Finding]:
    """The findings for an initial state whose sum is not the logged one."""
    expected, found = f"the initial state {run.initial_sha256}", f"the seed gives {state_sha256(built)}"
    there = f"on another machine: {', '.join(unlike)}" if unlike else "on a machine like its own"
    if kept is None:
        yield Finding(LOG, None, expected, f"{found}, {there}", _STATES, "error")
        return
    names = [name for name, array in kept.items() if array.dtype.kind == "f"]
    alike = _form(built) == _form(kept)
    apart = _norm(built, kept, names) / (_norm(kept, None, names) or 1.0) if alike else math.inf
    told = f"{found}, {apart:.1g} of its size away"
    if not apart <= MAX_INITIAL and unlike and run.evidence.in_open:  # its model may draw by its device's own numbers
        yield Finding(LOG, None, expected, f"{told}, {there}", _ALIKE, "error")
    elif not apart <= MAX_INITIAL:
        yield Finding(LOG, None, expected, told, _TRAIN)


@AUDIT.rule("audit.4")
def leads_to_its_state(block: Compared) -> Iterator[Finding]:
    """Trained again, the block ends in the state that the run logged: the same bits, or near it."""
    made = block.replay
    line, after = made.claim.line, made.claim.after
    if made.samples != after:
        yield Finding(LOG, line, f"training until {after} samples", f"it stops at {made.samples}", _TRAIN)
    elif not block.exact:
        expected = f"the state {made.claim.after_sha256} after {after} samples"
        found, compared = f"the training makes {state_sha256(made.after)}", block.way
        if compared is None:
            where = f"another machine: {', '.join(block.unlike)}" if block.unlike else "a machine like its own"
            yield Finding(LOG, line, expected, f"{found}, on {where}", _STATES, "error")
            return
        told = f"{compared.distance:.2%} of the block's way from it, on a way {compared.stretch:+.2%} and "
        told += f"{compared.other:+.2%} longer"
        if not compared.near:
            bounds = f"within {MAX_DISTANCE:.0%} of the block's way, on a way as long within {MAX_STRETCH:.0%} "
            bounds += f"and {MAX_OTHER_STRETCH:.0%}"
            yield _beyond(block, LOG, line, f"{expected}, or one {bounds}", f"{found}, {told}")
        elif not block.unlike:
            mend = "none, where thread counts or processors differ in what system.json does not tell; else look closer"
            yield Finding(LOG, line, expected, f"{found}, {told}, on a machine like its own", mend, "note")


@AUDIT.rule("audit.5")
def predicts_from_its_state(block: Compared) -> Iterator[Finding]:
    """The logged predictions and metrics are the logged state's; the same bits on a like machine predict the same."""
    made = block.replay
    claim, predicted = made.claim, made.predicted if block.exact else made.kept_predicted
    if predicted is None:
        return
    same = predicted.sha256 == claim.predictions_sha256
    expected = f"the predictions {claim.predictions_sha256} of the state after {claim.after} samples"
    if not same and block.exact and not block.unlike and block.replay.repeats is not False:
        yield Finding(LOG, claim.line, expected, f"{predicted.sha256}, of the same state", _TRAIN)
        return
    for name, found in predicted.metrics.items():
        claimed = number(claim.metrics.get(name))
        if claimed is None and not math.isfinite(found):
            continue
        if claimed is None or not _alike(found, claimed, same):
            yield _beyond(block, LOG, claim.line, f"{name} {claimed}, of its state", f"its state scores {found:.9g}")
            return
    if same:
        return
    others = None if claim.predictions is None else differing(claim.predictions, predicted.predictions)
    if block.unlike and any(isinstance(each, list) for each in predicted.predictions):
        others = None  # rounding adds, drops and reorders what a list holds: only the metrics judge it
    if others is not None and others > MAX_OTHERS:
        yield _beyond(block, PREDICTIONS, None, expected, f"{others:.1%} of its state's predictions are others")
    elif not block.unlike:
        mend = "none, where processors differ in what system.json does not tell; else look closer"
        yield Finding(LOG, claim.line, expected, f"{predicted.sha256}, which score alike", mend, "note")


def _alike(found: float, claimed: float, exactly: bool) -> bool:
    return close(found, claimed) if exactly else abs(found - claimed) <= MAX_METRIC * max(1.0, abs(found))


def _beyond(block: Compared, file: str, line: int | None, expected: str, found: str) -> Finding:
    """The finding for a value beyond the bounds: an error, not a fail, where honest training may end elsewhere."""
    reasons = (*block.unlike, *["this machine does not repeat itself"] * (block.replay.repeats is False))
    if reasons:
        return Finding(file, line, expected, f"{found} ({'; '.join(reasons)})", _ALIKE, "error")
    return Finding(file, line, expected, found, _TRAIN)


@AUDIT.rule("audit.6")
def loses_as_it_says(block: Compared) -> Iterator[Finding]:
    """Where the state is the logged one, so is the loss of the step that led to it."""
    made = block.replay
    claimed, found = made.claim.loss, number(made.loss)
    if block.exact and claimed is not None and not close(found, claimed):
        yield Finding(LOG, made.claim.line, f"loss {claimed} before it", f"the training has {found}", _TRAIN)


@AUDIT.rule("audit.7")
def takes_its_time(block: Compared) -> Iterator[Finding]:
    """On a machine of the same kind the block takes the time that is claimed."""
    made = block.replay
    claimed, found = made.claimed_seconds, made.seconds
    if claimed is None or block.unlike or found < LEAST_S or claimed * SLOWER >= found:
        return
    expected = f"{claimed:.3g} s for samples {made.begin} to {made.claim.after}"
    told = f"{found:.3g} s here, on a machine of its kind" + (f" ({'; '.join(block.noise)})" if block.noise else "")
    believed = claimed * MUCH_SLOWER >= found or block.noise
    mend = "audit again on a quiet machine" if block.noise else "say what made it faster, or submit the clock's times"
    yield Finding(LOG, made.claim.line, expected, told, mend, "note" if believed else "fail")
