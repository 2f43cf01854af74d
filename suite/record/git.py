"""The git repository of the project: its revision, whether its code was changed, and what a revision holds.

Also those of the folder of a user's own implementation, by `at`.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from suite.config.folder import ROOT

# What a run is made of; other files may lie in the checkout, such as results and submissions.
CHECKOUT = ("suite", "tasks", "reference_impls", "conf", "constraints.txt", "pyproject.toml")
REVISION = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\Z")  # git's sha1 or sha256
# Variables that git sets for its hooks; they may name another repository.
OF_A_REPOSITORY = ("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")


def output(*words: str, at: Path | None = None) -> bytes:
    """The output of a git command in the project, whoever owns its files, or in the folder `at`.

    Raises OSError or SubprocessError if the command fails.
    """
    environ = {name: value for name, value in os.environ.items() if name not in OF_A_REPOSITORY}
    ours = [] if at else ["-c", f"safe.directory={ROOT}"]
    command = ["git", "--no-optional-locks", "-C", str(at or ROOT), *ours, *words]
    return subprocess.run(command, capture_output=True, timeout=60, check=True, env=environ).stdout


def state() -> dict[str, Any]:
    """The project's `revision` and whether its code differs from it (`dirty`); None outside its own repository."""
    try:
        top, revision = output("rev-parse", "--show-toplevel", "HEAD").decode().splitlines()
        if Path(top).resolve() == ROOT:
            changes = output("status", "--porcelain", "--untracked-files=all", "--", *CHECKOUT)
            return {"revision": revision, "dirty": bool(changes)}
    except (OSError, ValueError, subprocess.SubprocessError):
        pass
    return {"revision": None, "dirty": None}


def without_revision() -> str:
    """Why `state` finds no revision, in git's own words if it gives any."""
    try:
        output("rev-parse", "HEAD")
    except FileNotFoundError:
        return "git is not installed"
    except subprocess.CalledProcessError as error:
        said: bytes = error.stderr
        return said.decode(errors="replace").partition("\n")[0]
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return "the repository is that of a folder above the suite's"


@cache
def has_history() -> bool:
    """Whether this copy of the suite is a git repository of its own."""
    try:
        return Path(output("rev-parse", "--show-toplevel").decode().rstrip("\n")).resolve() == ROOT
    except (OSError, ValueError, subprocess.SubprocessError):
        return False


@cache
def committed_ms(revision: str) -> int | None:
    """When the project's repository committed `revision`, in milliseconds since 1970; None if it does not have it."""
    if not (REVISION.match(revision) and has_history()):
        return None
    try:
        return int(output("show", "-s", "--format=%ct", f"{revision}^{{commit}}")) * 1000
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


@cache
def descends_from(revision: str) -> bool:
    """Whether what is checked out of the project is `revision` or descends from it, as from no commit of a fork."""
    try:
        output("merge-base", "--is-ancestor", f"{revision}^{{commit}}", "HEAD")
    except (OSError, subprocess.SubprocessError):
        return False
    return has_history()


def blobs(revision: str, *paths: str, at: Path | None = None) -> dict[str, str]:
    """Git's name of each file below `paths` at a revision of the project, or of the folder `at`, by the file's path.

    Raises OSError, SubprocessError or, for a path that is not UTF-8, ValueError.
    """
    listed = output("ls-tree", "-r", "-z", revision, "--", *paths, at=at).decode()
    entries = (entry.partition("\t") for entry in listed.split("\0") if entry)
    return {name: told.split()[2] for told, _, name in entries}


def blob_name(content: bytes, like: str) -> str:
    """Git's name of a blob: the hash of its length and its bytes, by sha1 or sha256 as the name `like` is."""
    made = hashlib.sha1 if len(like) == 40 else hashlib.sha256
    return made(b"blob %d\0%s" % (len(content), content)).hexdigest()
