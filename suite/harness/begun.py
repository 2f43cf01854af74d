"""What an earlier command left of a run that is resumed: its log, and the files that record how it was begun."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import CONFIG, HEAD, INIT_LIMITS_MIN
from suite.errors import UserError
from suite.measure.machine import Machine
from suite.record import evidence
from suite.record.mllog import Line, Log, whole_lines
from suite.record.parsing import MalformedError, differences, json_object, whole
from suite.store.sums import sha256

_MEND = "bring back the file as it was, or begin a new run with another out="


def open_log(folder: Path, not_before_ms: int) -> Log:
    """Open the log of the run in `folder`, which is created; start the log afresh if only a part of its head exists.

    Raises UserError if the folder cannot be written. Also raises it, leaving everything as it is, if the log is
    damaged, config.yaml is not the one named in it, or the initialisation has taken longer than a review allows.
    """
    path = folder / evidence.LOG
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lines = whole_lines(path.read_bytes()) if path.exists() else []
        if not _has_head(folder, lines):
            path.unlink(missing_ok=True)
        log = Log(path, not_before_ms)
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror}): mend that, or choose another out=") from error
    if problem := _too_late(log):
        log.close()
        runs_before = not_before_ms > 0
        mend = f"delete {folder} and give the command again" if runs_before else "begin a new run with another out="
        raise UserError(f"{folder}: {problem}: {mend}")
    return log


def changed(folder: Path, description: Mapping[str, Any]) -> list[str]:
    """The places where system.json, written when the run was begun, differs from the current `description`.

    Raises UserError if it cannot be read.
    """
    began = _described(folder)
    now = json.loads(json.dumps(description))
    return [".".join(map(str, place)) for place, _, _ in differences(began, now)]


def machine(folder: Path, now: Machine) -> Machine:
    """`now`, with the number of CPUs and the library that system.json recorded when the run was begun.

    Raises UserError if it cannot be read.
    """
    detected = _described(folder).get("detected")
    told = detected if isinstance(detected, dict) else {}
    return replace(now, logical_cpus=whole(told.get("logical_cpus")) or now.logical_cpus, library=told.get("library"))


def _described(folder: Path) -> dict[str, Any]:
    path = folder / evidence.SYSTEM
    try:
        return json_object(path.read_bytes())
    except (OSError, MalformedError) as error:
        raise UserError(f"{path} cannot be read ({error}): {_MEND}") from error


def _too_late(log: Log) -> str | None:
    """Why a run whose clock has not started yet would fail its review; None if it would not."""
    first = {line.key: line for line in reversed(log.lines)}
    if keys.INIT_START not in first or keys.RUN_START in first:
        return None
    passed, limit = (
        log.now_ms() - first[keys.INIT_START].time_ms,
        INIT_LIMITS_MIN[first[keys.SUBMISSION_DIVISION].value],
    )
    if passed <= limit * 60_000:
        return None
    minutes = f"{passed / 60_000:.0f} minutes"
    return f"its initialisation was begun {minutes} ago and never ended, and timing.2 allows {limit}"


def _has_head(folder: Path, lines: list[Line]) -> bool:
    """Whether a log of these lines has its whole head. Raises UserError if a line is damaged, if the head of a run that
    was begun is incomplete, or if config.yaml is not the one named in the log.
    """
    path, config = folder / evidence.LOG, folder / evidence.CONFIG
    for line in lines:
        if line.problem:
            raise UserError(f"{path}, line {line.number}: {line.problem}: {_MEND}")
    logged = {line.key: line.value for line in lines}
    if not logged.keys() >= set(HEAD):
        if keys.RUN_START in logged or (folder / evidence.MANIFEST).exists():
            raise UserError(f"{path} lacks what the log of a run begins with: {_MEND}")
        return False
    if not config.exists() or sha256(config) != logged[CONFIG]:
        raise UserError(f"{config} is not what the run was begun with, by the sum in its log: {_MEND}")
    return True
