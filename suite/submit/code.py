"""The code of a task as it was run: from the git revision that the evidence names, else from the files as they are."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from suite.record.system import ROOT, git_output
from suite.submit.collecting import Collected

SHARED = "reference_impls/"


@dataclass(frozen=True)
class Code:
    """Files by their path in the project. `name` is their folder; `missing` says what is not known, or is empty."""

    name: str
    files: dict[str, bytes]
    missing: str = ""


def code(result: Collected) -> Code:
    """The task's implementation and what implementations share, its data and metric, its values and list of files."""
    task, listed = result.benchmark.task, result.benchmark.dataset.files
    paths = [SHARED, f"tasks/{task}", f"conf/task/{task}.yaml"]
    if isinstance(listed, str):
        paths.append(f"conf/files/{listed}.txt")
    revision = result.revision
    if revision and not result.dirty:
        try:
            names = git_output("ls-tree", "-r", "-z", "--name-only", revision, "--", *paths).decode().split("\0")
            files = {name: git_output("show", f"{revision}:{name}") for name in names if _belongs(name, task)}
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
    return Code(f"{(revision or 'no-revision')[:12]}-as-packed", _as_they_are(paths, task), missing)


def _belongs(name: str, task: str) -> bool:
    """Whether the task needs the file: of `reference_impls/` its own folder, and what lies beside the folders."""
    return bool(name) and (not name.startswith(SHARED) or name.count("/") == 1 or name.startswith(f"{SHARED}{task}/"))


def _as_they_are(paths: Sequence[str], task: str) -> dict[str, bytes]:
    found = {}
    for path in paths:
        here = ROOT / path
        for file in sorted(here.rglob("*")) if here.is_dir() else [here]:
            name = file.relative_to(ROOT).as_posix()
            if file.suffix in (".py", ".md", ".yaml", ".txt") and file.is_file() and _belongs(name, task):
                found[name] = file.read_bytes()
    return found
