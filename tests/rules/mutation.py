"""`python -m tests.rules.mutation`: break sound evidence in all ways that rules forbid, and count what is missed."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from suite.rules.verdict import review
from tests.rules.derived import derived
from tests.rules.editor import Evidence
from tests.rules.evidence_maker import isolate, write_run
from tests.rules.mutants import MUTANTS, RESULT_MUTANTS


@dataclass
class Survey:
    """How many mutants were made of each rule, and which of them their rule did not find."""

    mutants: Counter[str]
    misses: list[str]

    def __str__(self) -> str:
        said = f"{self.mutants.total()} mutants of {len(self.mutants)} rules, {len(self.misses)} misses"
        return "\n".join([said, *self.misses])


def survey(folder: Path) -> Survey:
    """Make and review every mutant, hand-written or derived, in `folder`."""
    run = write_run(folder / "sound" / "run")
    for index in range(1, 6):
        write_run(folder / "sound" / "result" / f"run_{index}", index, runs=5)
    made = Survey(Counter(), [])
    for rule, mutations in MUTANTS.items():
        for mutate in mutations:
            _try(made, rule, mutate.__name__, run.folder, folder / "mutant", lambda at, m=mutate: m(Evidence(at)))
    for rule, mutations in RESULT_MUTANTS.items():
        for mutate in mutations:
            _try(made, rule, mutate.__name__, folder / "sound" / "result", folder / "mutant", mutate)
    for rule, name, change in derived():
        _try(made, rule, name, run.folder, folder / "mutant", lambda at, change=change: change(Evidence(at)))
    return made


def _try(made: Survey, rule: str, name: str, sound: Path, folder: Path, mutate: Callable[[Path], object]) -> None:
    shutil.copytree(sound, folder / "evidence")
    mutate(folder / "evidence")
    made.mutants[rule] += 1
    if rule not in {finding.rule for finding in review(folder / "evidence").findings}:
        made.misses.append(f"{rule}: {name}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
        isolate(patch, Path(scratch))
        result = survey(Path(scratch))
    print(result)
    sys.exit(bool(result.misses))
