"""Checkpoints: what a killed run goes on from, and the sums and copies of states that an audit goes on from."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from suite.config.models import Benchmark
from suite.errors import UserError
from suite.record import states
from suite.record.evidence import CHECKPOINT
from suite.record.mllog import Log
from suite.store.disk import partial

SHARE = 0.01  # of a run's time, at most, for writing checkpoints


@dataclass
class Checkpoints:
    """Writes a run's checkpoints as often as `SHARE` allows: at the first occasion, then at each that is paid for.

    The lines of `log` are on the disk before a checkpoint is: after a power cut too they tell of all that it has seen.
    With `keep` the initial state and that at each evaluation are kept as well, whatever that takes.
    """

    folder: Path
    log: Log
    keep: bool = False
    _not_before: float = field(default=0.0, init=False)

    def occasion(self, state: Callable[[], Mapping[str, np.ndarray]], samples: int) -> None:
        """Save `state()` after `samples` samples if it is time to."""
        began = time.monotonic()
        if began >= self._not_before:
            self.save(state(), samples)
            ended = time.monotonic()
            self._not_before = ended + (ended - began) / SHARE

    def save(self, state: Mapping[str, np.ndarray], samples: int) -> None:
        """Save the state after `samples` samples."""
        self.log.sync()
        states.write(self.folder / CHECKPOINT, state, samples)

    def logged(self, state: Mapping[str, np.ndarray], samples: int) -> str:
        """The sum of a state, the initial one or that at an evaluation, for the log; it is kept if it is to be."""
        if self.keep:
            path = states.path_of(self.folder, samples)
            path.parent.mkdir(exist_ok=True)
            states.write(path, state, samples)
        return states.state_sha256(state)


def load(folder: Path, logged: int) -> tuple[dict[str, np.ndarray], int] | None:
    """The last checkpoint's state and samples, or None if there is none.

    Raises UserError if it cannot be read, or is of more samples than the log tells of, which are `logged`.
    """
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    try:
        state, samples = states.read(path)
    except (OSError, states.BadState) as error:
        raise UserError(f"{path} cannot be read ({error}): delete it to start this run's training over") from error
    if samples > logged:
        raise UserError(
            f"{path} is of {samples} samples, and the log, whose last lines are lost, tells of {logged}: delete it to "
            "start this run's training over"
        )
    return state, samples


def remove(folder: Path) -> None:
    """Remove the checkpoint of a run that has ended, and what a kill left of one."""
    for path in _files(folder):
        path.unlink(missing_ok=True)


def _files(folder: Path) -> tuple[Path, Path]:
    return folder / CHECKPOINT, partial(folder / CHECKPOINT)


def reserve(folder: Path, state: Mapping[str, np.ndarray], kept: int = 0) -> None:
    """Make sure, before the clock starts, that the folder can hold two checkpoints, `kept` states and the evidence.

    What of these lies there already has its room. Raises OSError if the folder is not writable or its disk, or quota,
    has too little room.
    """
    lying = (*_files(folder), *states.kept(folder))
    there = sum(path.stat().st_size for path in lying if path.exists())
    need = max((2 + kept) * sum(array.nbytes for array in state.values()) - there, 0) + (16 << 20)
    probe = folder / ".room"
    try:
        with probe.open("wb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, need)
            elif shutil.disk_usage(folder).free < need:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}: the run needs {need >> 20} MiB of room") from error
    finally:
        probe.unlink(missing_ok=True)


def evaluations(benchmark: Benchmark) -> int:
    """The most evaluations that a run of `benchmark` comes to."""
    ahead = max(benchmark.budget_samples - benchmark.evaluation.first, 0)
    return 1 + -(-ahead // benchmark.evaluation.every)
