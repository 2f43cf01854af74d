"""The code of a task as it was run: from the git revision that the evidence names, else from the files as they are."""

from __future__ import annotations

from dataclasses import dataclass

from suite.config.models import Benchmark
from suite.record.system import ROOT
from suite.rules.code import at_revision, belongs, paths
from suite.submit.collecting import Collected


@dataclass(frozen=True)
class Code:
    """Files by their path in the project. `name` is their folder; `missing` says what is not known, or is empty."""

    name: str
    files: dict[str, bytes]
    missing: str = ""


def code(result: Collected) -> Code:
    """The task's implementation and what implementations share, its data and metric, its values and list of files."""
    revision = result.revision
    if revision and not result.dirty:
        if files := at_revision(revision, result.benchmark):
            return Code(revision[:12], files)
        missing = f"revision {revision[:12]} is not in this repository: its code as it is now is packed"
    elif revision:
        missing = (
            f"the run was made from revision {revision[:12]} with changes: commit, and run it from a clean checkout"
        )
    else:
        missing = "the run names no git revision: run it from a clone of the repository"
    return Code(f"{(revision or 'no-revision')[:12]}-as-packed", _as_they_are(result.benchmark), missing)


def _as_they_are(benchmark: Benchmark) -> dict[str, bytes]:
    found = {}
    for path in paths(benchmark):
        here = ROOT / path
        for file in sorted(here.rglob("*")) if here.is_dir() else [here]:
            name = file.relative_to(ROOT).as_posix()
            if file.suffix in (".py", ".md", ".yaml", ".txt") and file.is_file() and belongs(name, benchmark.task):
                found[name] = file.read_bytes()
    return found
