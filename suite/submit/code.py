"""The code of a task as it was run: from the git revision that the evidence names, else from the files as they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from suite.config.contestant import Contestant
from suite.config.folder import ROOT
from suite.config.models import Benchmark
from suite.errors import UserError
from suite.rules.code import at_revision, here, name_of
from suite.store.code import CODE, MAX_FILE_BYTES
from suite.store.disk import UnsafeFile, read_safely, reason
from suite.submit.collecting import Collected


@dataclass(frozen=True)
class Code:
    """Files by their path in the project. `name` is their folder; `missing` says why they may not be what ran."""

    name: str
    files: dict[str, bytes]
    missing: str = ""


def code(result: Collected) -> Code:
    """The code that a result was run with, by `suite.rules.code.paths`: at its revision, else as it is now.

    If the submitter's own implementation trained, its files are added, as the evidence kept them.
    """
    made = _of_the_suite(result)
    own = {} if result.contestant is None else _own(result.runs[0] / CODE, result.contestant)
    return replace(made, files={**made.files, **{f"{CODE}/{name}": content for name, content in own.items()}})


def _own(folder: Path, contestant: Contestant) -> dict[str, bytes]:
    """The files that trained. Raises UserError if one cannot be read; a rule finds what else is wrong with them."""
    try:
        return {name: read_safely(folder / name, MAX_FILE_BYTES) for name in contestant.files}
    except (UnsafeFile, OSError) as error:
        raise UserError(f"{folder}, the code of {contestant.name}, cannot be read: {reason(error)}") from error


def _of_the_suite(result: Collected) -> Code:
    revision = result.revision
    if revision and not result.dirty:
        if files := at_revision(revision, result.benchmark):
            return Code(name_of(revision, result.contestant), files)
        missing = f"revision {revision[:12]} is not in this repository: its code as it is now is packed"
    elif revision:
        missing = (
            f"the run was made from revision {revision[:12]} with changes: commit, and run it from a clean checkout"
        )
    else:
        missing = "the run names no git revision: run it from a clone of the repository"
    name = name_of(revision or "no-revision", result.contestant)
    return Code(f"{name}-as-packed", _as_they_are(result.benchmark), missing)


def _as_they_are(benchmark: Benchmark) -> dict[str, bytes]:
    names = (name for name in here(benchmark) if name.endswith((".py", ".md", ".yaml", ".txt")))
    return {name: (ROOT / name).read_bytes() for name in names}
