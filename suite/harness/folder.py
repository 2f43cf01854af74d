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
    """Raise UserError unless `out` is new, or empty but for what a command left that was killed before it began."""
    try:
        used = out.exists() and any(map(_counts, out.iterdir()))
        mend = f", or go on with {gone_on_by(out, None)}" if has_run(out) else ""
    except OSError as error:
        raise UserError(f"out={out} cannot be read ({error.strerror}): choose another out=") from error
    if used:
        raise UserError(f"out={out} is not empty: choose another out={mend}")


def gone_on_by(out: Path, own: OwnImplementation | None) -> str:
    """The options with which a command goes on with the run in `out`: code that is not the suite's is named again."""
    said = f"resume={shlex.quote(str(out))}"
    return f"{said} implementation={shlex.quote(str(own.path))}" if own else said


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
