"""Checkpoints, from which a killed run resumes, and the checksums and copies of states that an audit starts from."""

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

SHARE = 0.01  # the largest part of a run's time spent on writing checkpoints


@dataclass
class Checkpoints:
    """Writes a run's checkpoints: one at the first occasion, later ones as often as `SHARE` allows.

    The lines of `log` reach the disk before a checkpoint does, so even after a power cut they cover all that it has
    seen. With `keep` the initial state and the state at each evaluation are kept as well, whatever time that takes.
    """

    folder: Path
    log: Log
    keep: bool = False
    _not_before: float = field(default=0.0, init=False)

    def occasion(self, state: Callable[[], Mapping[str, np.ndarray]], samples: int) -> None:
        """Save `state()` after `samples` samples if a checkpoint is due."""
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
        """The sha256, for the log, of the initial state or of one at an evaluation; with `keep` the state is stored."""
        if self.keep:
            path = states.path_of(self.folder, samples)
            path.parent.mkdir(exist_ok=True)
            states.write(path, state, samples)
        return states.state_sha256(state)


def load(folder: Path, logged: int) -> tuple[dict[str, np.ndarray], int] | None:
    """The last checkpoint's state and samples, or None if there is none.

    Raises UserError if it cannot be read, or has seen more samples than the log records, `logged`.
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
    """Remove the checkpoint of a run that has ended, and any partial one that a kill left."""
    for path in _files(folder):
        path.unlink(missing_ok=True)


def _files(folder: Path) -> tuple[Path, Path]:
    return folder / CHECKPOINT, partial(folder / CHECKPOINT)


def reserve(folder: Path, state: Mapping[str, np.ndarray], kept: int) -> None:
    """Make sure, before the clock starts, that the folder can hold two checkpoints, `kept` states and the evidence.

    Space that existing checkpoints and states take up counts towards this. Raises OSError if the folder is not
    writable, or its disk or quota has too little room.
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
    """The largest number of evaluations that a run of `benchmark` can have."""
    ahead = max(benchmark.budget_samples - benchmark.evaluation.first, 0)
    return 1 + -(-ahead // benchmark.evaluation.every)
