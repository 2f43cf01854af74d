"""Where the mutants stand by rule, and what they are made with."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from suite.record import mllog
from tests.rules.editor import Evidence
from tests.rules.evidence_maker import write_run

MUTANTS: dict[str, list[Callable[[Evidence], object]]] = {}
RESULT_MUTANTS: dict[str, list[Callable[[Path], object]]] = {}


def breaks(rule: str) -> Callable[[Callable[[Evidence], object]], Callable[[Evidence], object]]:
    def register(mutate: Callable[[Evidence], object]) -> Callable[[Evidence], object]:
        MUTANTS.setdefault(rule, []).append(mutate)
        return mutate

    return register


def breaks_result(rule: str) -> Callable[[Callable[[Path], object]], Callable[[Path], object]]:
    def register(mutate: Callable[[Path], object]) -> Callable[[Path], object]:
        RESULT_MUTANTS.setdefault(rule, []).append(mutate)
        return mutate

    return register


def rewrite(run: Evidence, **parameters: Any) -> Evidence:
    """Replace the evidence by that of a run with other parameters."""
    shutil.rmtree(run.folder)
    return write_run(run.folder, **parameters)


def drop(key: str) -> Callable[[list[dict]], None]:
    def change(records: list[dict]) -> None:
        records.remove(next(record for record in records if record["key"] == key))

    return change


def index_of(records: list[dict], key: str) -> int:
    return next(at for at, record in enumerate(records) if record["key"] == key)


def sum_of(path: Path) -> str:
    return mllog.line_hash(path.read_bytes())
