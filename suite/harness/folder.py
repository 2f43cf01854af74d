"""A run's folder: new when a run begins, and used by one command at a time."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from suite.errors import UserError
from suite.record.evidence import CONFIG, LOG, SYSTEM
from suite.store.disk import alone, partial

LOCK = ".lock"
_OF_SEVERAL = re.compile(r"run_\d+")


def configs(out: Path) -> tuple[Path, Path]:
    """The two places where the configuration of the first run in `out` may lie: for a single run, and for several."""
    return out / CONFIG, out / "run_1" / CONFIG


def has_run(out: Path, since_s: float = 0.0) -> bool:
    """Whether a run was begun in `out`, at the earliest `since_s`, in seconds since 1970."""
    return any(path.exists() and path.stat().st_mtime >= since_s for path in configs(out))


def used(out: Path, resume: str) -> str | None:
    """Why no run can begin in `out`; None if it is new or holds only what a command left before its run began.

    `resume` holds the options that resume a run there. Within another run's evidence, or named as one of several runs,
    it would count as a part of another result; with a dash before its name no printed command would reach it.
    """
    if str(out).startswith("-"):
        return f"out={out} begins with a dash, so that other commands take it for an option: choose another out="
    place = Path(os.path.realpath(out))
    try:
        if around := next(filter(_evidence, place.parents), None):
            return f"out={out} lies within {around}, the evidence of another command: choose another out="
        if _OF_SEVERAL.fullmatch(name := place.name):
            return f"out={out}: {name} is what runs=N calls a run of several, not a result: choose another out="
        if not out.exists() or not any(map(_counts, out.iterdir())):
            return None
        mend = f", or go on with {resume}" if has_run(out) else ""
    except OSError as error:
        return f"out={out} cannot be read ({error.strerror}): choose another out="
    return f"out={out} is not empty: choose another out={mend}"


def clear(out: Path) -> None:
    """Remove what a command left in `out` before its run began: of a run of another number, it would count as its part.

    Raises UserError if the folder cannot be written.
    """
    try:
        for path in out.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != LOCK:
                path.unlink()
    except OSError as error:
        raise _unwritable(out, error) from error


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Create the folder `out` and keep other commands out of it for as long as the block lasts.

    Raises UserError if another command is using it, or if it cannot be written.
    """
    with ExitStack() as stack:
        try:
            out.mkdir(parents=True, exist_ok=True)
            busy = f"{out}: another command is at work there; wait for it, or choose another out="
            stack.enter_context(alone(out / LOCK, busy))
        except OSError as error:
            raise _unwritable(out, error) from error
        yield


def _unwritable(out: Path, error: OSError) -> UserError:
    return UserError(f"{out} cannot be written ({error.strerror}): mend that, or choose another out=")


def _evidence(folder: Path) -> bool:
    """Whether `folder` holds a run, or the first of several."""
    return any(all((at / name).is_file() for name in (LOG, CONFIG, SYSTEM)) for at in (folder, folder / "run_1"))


def _counts(path: Path) -> bool:
    """Whether `path` is more than a command leaves behind if it is killed before resume= could go on from there."""
    if path.is_dir() and not path.is_symlink() and path.name.startswith("run_"):
        return any(map(_counts, path.iterdir()))
    return path.name not in (LOCK, partial(Path(CONFIG)).name) and (path.name != LOG or path.stat().st_size > 0)
