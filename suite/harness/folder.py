"""A run's folder: new when a run begins, and one command's at a time."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from suite.errors import UserError
from suite.record.evidence import CONFIG, LOG
from suite.store.disk import alone, partial

LOCK = ".lock"
NOT_KEPT = ("implementation", "data_dir", "mlflow")  # options of each command, not of a run
OF_CODE = ("framework",)  # which tells in what code of one's own trains that imports two
CHANGED = ("hw.workers",)  # which a command that goes on may change


def has_run(out: Path) -> bool:
    """Whether a run was begun in `out`."""
    return any((out / folder / CONFIG).exists() for folder in ("", "run_1"))


def used(out: Path, given: Mapping[str, Any]) -> str | None:
    """Why no run could begin in `out`; None where it is new, or empty but for what a command left that never began.

    `given` is what was typed; see `gone_on_by`.
    """
    try:
        if not out.exists() or not any(map(_counts, out.iterdir())):
            return None
        mend = f", or go on with {gone_on_by(out, given)}" if has_run(out) else ""
    except OSError as error:
        return f"out={out} cannot be read ({error.strerror}): choose another out="
    return f"out={out} is not empty: choose another out={mend}"


def gone_on_by(out: Path, given: Mapping[str, Any]) -> str:
    """The options with which a command goes on with the run in `out`: of those `given` what its evidence has not."""
    names = (
        *NOT_KEPT,
        *(OF_CODE if given.get("implementation") is not None else ()),
        *(CHANGED if "resume" in given else ()),
    )
    again = {"resume": out, **{name: given[name] for name in names if given.get(name) is not None}}
    if "implementation" in again:
        again["implementation"] = Path(again["implementation"]).absolute()
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in again.items()}
    return " ".join(f"{name}={shlex.quote(text)}" for name, text in texts.items())


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Keep other commands off the folder `out`, which is made, for as long as the block lasts.

    Raises UserError if another command has it, or if it cannot be written.
    """
    with ExitStack() as stack:
        try:
            out.mkdir(parents=True, exist_ok=True)
            busy = f"{out}: another command is at work there; wait for it, or choose another out="
            stack.enter_context(alone(out / LOCK, busy))
        except OSError as error:
            raise UserError(f"{out} cannot be written ({error.strerror}): mend that, or choose another out=") from error
        yield


def _counts(path: Path) -> bool:
    """Whether it is more than what a command leaves that is killed as it begins, before resume= could go on."""
    if path.is_dir() and not path.is_symlink() and path.name.startswith("run_"):
        return any(map(_counts, path.iterdir()))
    return path.name not in (LOCK, partial(Path(CONFIG)).name) and (path.name != LOG or path.stat().st_size > 0)
