"""`python -m tests.rules.mutation`: break sound evidence in all ways that rules forbid, and count what is missed."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest

from suite.rules.verdict import review
from tests.rules.derived import derived
from tests.rules.editor import Evidence
from tests.rules.evidence_maker import isolate, write_result, write_run
from tests.rules.mutants import MUTANTS, RESULT_MUTANTS

Mutant = tuple[str, str, str, Callable[[Path], object]]  # rule, what is changed, of a run or a result, the change


@dataclass
class Survey:
    """How many mutants were made of each rule, and which of them their rule did not find."""

    mutants: Counter[str]
    misses: list[str]

    def __str__(self) -> str:
        said = f"{self.mutants.total()} mutants of {len(self.mutants)} rules, {len(self.misses)} misses"
        return "\n".join([said, *self.misses])


def written() -> Iterator[Mutant]:
    """The mutants written by hand, of a run and of a result."""
    for rule, mutations in MUTANTS.items():
        for mutate in mutations:
            yield rule, mutate.__name__, "run", lambda at, mutate=mutate: mutate(Evidence(at))
    for rule, mutations in RESULT_MUTANTS.items():
        for mutate in mutations:
            yield rule, mutate.__name__, "result", mutate


def changed() -> Iterator[Mutant]:
    """The mutants of a run in which one thing of what the rules are written over is another."""
    for rule, name, change in derived():
        yield rule, name, "run", lambda at, change=change: change(Evidence(at))


def survey(folder: Path, mutants: Iterable[Mutant]) -> Survey:
    """Make and review each of `mutants` in `folder`."""
    write_run(folder / "sound" / "run")
    write_result(folder / "sound" / "result", 5)
    made = Survey(Counter(), [])
    for rule, name, of, mutate in mutants:
        shutil.copytree(folder / "sound" / of, folder / "mutant" / "evidence")
        mutate(folder / "mutant" / "evidence")
        made.mutants[rule] += 1
        if rule not in {finding.rule for finding in review(folder / "mutant" / "evidence").findings}:
            made.misses.append(f"{rule}: {name}")
        shutil.rmtree(folder / "mutant")
    return made


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
        isolate(patch, Path(scratch))
        result = survey(Path(scratch), chain(written(), changed()))
    print(result)
    sys.exit(bool(result.misses))
