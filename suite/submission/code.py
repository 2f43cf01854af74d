"""The code of a task as it was run: from the git revision that the evidence names, else from the files as they are."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from suite.record.system import ROOT
from suite.submission.collecting import Collected

_TIMEOUT_S = 60


@dataclass(frozen=True)
class Code:
    """Files by their path in the project. `name` is their folder; `missing` says what is not known, or is empty."""

    name: str
    files: dict[str, bytes]
    missing: str = ""


def code(result: Collected) -> Code:
    """The task's implementation, its data and metric, and its values."""
    task = result.benchmark.task
    paths = (f"reference_impls/{task}", f"tasks/{task}", f"conf/task/{task}.yaml")
    revision = result.revision
    if revision and not result.dirty:
        try:
            names = _git("ls-tree", "-r", "-z", "--name-only", revision, "--", *paths).decode().split("\0")
            files = {name: _git("show", f"{revision}:{name}") for name in names if name}
            if files:
                return Code(revision[:12], files)
        except (OSError, ValueError, subprocess.SubprocessError):
            pass
        missing = f"revision {revision[:12]} is not in this repository: its code as it is now is packed"
    elif revision:
        missing = (
            f"the run was made from revision {revision[:12]} with changes: commit, and run it from a clean checkout"
        )
    else:
        missing = "the run names no git revision: run it from a clone of the repository"
    return Code(f"{(revision or 'no-revision')[:12]}-as-packed", _as_they_are(paths), missing)


def _as_they_are(paths: tuple[str, ...]) -> dict[str, bytes]:
    found = {}
    for path in paths:
        here = ROOT / path
        for file in sorted(here.rglob("*")) if here.is_dir() else [here]:
            if file.suffix in (".py", ".md", ".yaml") and file.is_file():
                found[file.relative_to(ROOT).as_posix()] = file.read_bytes()
    return found


def _git(*words: str) -> bytes:
    call = ["git", "-C", str(ROOT), *words]
    return subprocess.run(call, capture_output=True, timeout=_TIMEOUT_S, check=True).stdout
