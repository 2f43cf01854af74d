"""A run's folder: new when a run begins, and one command's at a time."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from suite.errors import UserError
from suite.harness.contestant import OwnImplementation
from suite.record.evidence import CONFIG, LOG
from suite.store.disk import partial

LOCK = ".lock"


def has_run(out: Path) -> bool:
    """Whether a run was begun in `out`."""
    return any((out / folder / CONFIG).exists() for folder in ("", "run_1"))


def refuse_used(out: Path) -> None:
    """Raise UserError where `used` says why."""
    if problem := used(out):
        raise UserError(problem)


def used(out: Path) -> str | None:
    """Why no run could begin in `out`; None where it is new, or empty but for what a command left that never began."""
    try:
        if not out.exists() or not any(map(_counts, out.iterdir())):
            return None
        mend = f", or go on with {gone_on_by(out)}" if has_run(out) else ""
    except OSError as error:
        return f"out={out} cannot be read ({error.strerror}): choose another out="
    return f"out={out} is not empty: choose another out={mend}"


def gone_on_by(out: Path, own: OwnImplementation | None = None, data_dir: str | None = None) -> str:
    """The options with which a command goes on with the run in `out`: what its evidence has not is named again."""
    options = {"resume": out, "implementation": own.path if own else None, "data_dir": data_dir}
    return " ".join(f"{name}={shlex.quote(str(value))}" for name, value in options.items() if value is not None)


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Keep other commands off the folder `out`, which is made, for as long as the block lasts.

    Raises UserError if another command has it, or if it cannot be written.
    """
    lock = FileLock(out / LOCK, blocking=False)
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise UserError(f"{out}: another command is at work there; wait for it, or choose another out=") from error
    except OSError as error:
        raise UserError(f"{out} cannot be written ({error.strerror}): choose another out=") from error
    try:
        yield
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def _counts(path: Path) -> bool:
    """Whether it is more than what a command leaves that is killed as it begins, before resume= could go on."""
    if path.is_dir() and not path.is_symlink() and path.name.startswith("run_"):
        return any(map(_counts, path.iterdir()))
    return path.name not in (LOCK, partial(Path(CONFIG)).name) and (path.name != LOG or path.stat().st_size > 0)
