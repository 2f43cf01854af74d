"""Checkpoints: what a killed run goes on from. Plain arrays, no pickle."""

from __future__ import annotations

import errno
import os
import shutil
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from suite.errors import UserError
from suite.record.evidence import CHECKPOINT

SHARE = 0.01  # of a run's time, at most, for writing checkpoints

_SAMPLES = "samples"


@dataclass
class Checkpoints:
    """Writes a run's checkpoints as often as `SHARE` allows: at the first occasion, then at each that is paid for."""

    folder: Path
    _not_before: float = field(default=0.0, init=False)

    def occasion(self, state: Callable[[], Mapping[str, np.ndarray]], samples: int) -> None:
        """Save `state()` after `samples` samples if it is time to."""
        began = time.monotonic()
        if began >= self._not_before:
            save(self.folder, state(), samples)
            ended = time.monotonic()
            self._not_before = ended + (ended - began) / SHARE


def save(folder: Path, state: Mapping[str, np.ndarray], samples: int) -> None:
    """Replace the folder's checkpoint; a kill or a power cut in the middle leaves the old one."""
    partial = folder / (CHECKPOINT + ".part")
    with partial.open("wb") as file:
        np.savez(
            file, allow_pickle=False, **{f"state/{k}": v for k, v in state.items()}, **{_SAMPLES: np.array(samples)}
        )
        file.flush()
        os.fsync(file.fileno())
    partial.replace(folder / CHECKPOINT)


def load(folder: Path) -> tuple[dict[str, np.ndarray], int] | None:
    """The last checkpoint's state and samples, or None if there is none. Raises UserError if it cannot be read."""
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as archive:
            state = {k.removeprefix("state/"): archive[k] for k in archive.files if k != _SAMPLES}
            return state, int(archive[_SAMPLES])
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} cannot be read ({error}): delete it to start this run's training over") from error


def reserve(folder: Path, state: Mapping[str, np.ndarray]) -> None:
    """Make sure, before the clock starts, that the folder can hold two checkpoints and the evidence.

    Raises UserError if the folder is not writable or its disk, or quota, has too little room.
    """
    need = 2 * sum(array.nbytes for array in state.values()) + (16 << 20)
    probe = folder / ".room"
    try:
        with probe.open("wb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, need)
            elif shutil.disk_usage(folder).free < need:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        raise UserError(
            f"{folder} needs {need >> 20} MiB of room for the run: {error.strerror}; choose another out="
        ) from error
    finally:
        probe.unlink(missing_ok=True)
