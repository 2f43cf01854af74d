"""A submission's folders: which logs lie together, and whose they are. Nothing outside the given path is read.

    ORG/systems/SYSTEM.json
    ORG/results/SYSTEM/BENCHMARK/result_*.txt    with power: power/result_*/...
                                 scaling.json    the factor that the review committee set
The benchmark level may be missing, and the path given may be any of these folders, one above them, or a log.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NoReturn

from suite.errors import UserError, shown_path
from suite.rules.finding import MAX_FINDINGS, Finding

LOG_NAMES = "result_*.txt"
SCALING = "scaling.json"
_POWER = "power"
MAX_ENTRIES = 200_000


@dataclass(frozen=True)
class Group:
    """The logs of one folder. `root` is what is reviewed; the names of the folders above tell whose the logs are."""

    root: Path
    folder: Path
    logs: list[str]

    @property
    def label(self) -> str:
        """The folder relative to `root`, empty for `root`; escaped so that it is safe to print and no two are alike."""
        label = str(self.folder.relative_to(self.root))
        return "" if label == "." else "".join(c if c.isprintable() and c != "\\" else ascii(c)[1:-1] for c in label)

    @property
    def _results(self) -> Path | None:
        """The nearest folder named results: this one or one above it."""
        return next((at for at in (self.folder, *self.folder.parents) if at.name == "results"), None)

    @property
    def org(self) -> str | None:
        """The name of the submitter's folder, None if the path does not tell."""
        return (self._results.parent.name or None) if self._results else None

    @property
    def org_is_submitted(self) -> bool:
        """Whether the submitter's folder lies below `root`, so that its name is the submission's."""
        return (
            self._results is not None and self._results.is_relative_to(self.root) and self._below(self._results.parent)
        )

    @property
    def system(self) -> str | None:
        """The name of the system's folder, None if the path does not tell."""
        parts = self.folder.relative_to(self._results).parts if self._results else ()
        return parts[0] if parts else None

    @property
    def description(self) -> Path | None:
        """Where the system's description should lie; None if that is not in what is reviewed."""
        if self._results is None or self.system is None:
            return None
        systems = self._results.with_name("systems")
        return systems / f"{self.system}.json" if self._below(systems) and not systems.is_symlink() else None

    def _below(self, path: Path) -> bool:
        return path != self.root and path.is_relative_to(self.root)


@dataclass(frozen=True)
class Package:
    """What lies at a path: the groups of logs, and findings about the folders themselves."""

    groups: list[Group]
    findings: list[Finding]


def survey(path: Path, ruleset: str) -> Package:
    """The package at `path`: a folder or a log, or a link to one. Links below it are not followed.

    Raises UserError if there is no log, if there are more than MAX_ENTRIES files and folders, or if a folder cannot be
    read: its logs would be missing.
    """
    if not path.exists():
        raise UserError(f"cannot review {path}: no such file or folder")
    root = path.resolve()
    if not path.is_dir():
        return Package([Group(root.parent, root.parent, [root.name])], [])
    groups: list[Group] = []
    findings: list[Finding] = []
    entries = 0
    for at, folders, files in os.walk(root, onerror=_refuse):
        here = Path(at)
        entries += len(folders) + len(files)
        if entries > MAX_ENTRIES:
            raise UserError(f"{path} holds more than {MAX_ENTRIES} files: give a submitter's folder")
        for name in sorted(folders + files):
            if (here / name).is_symlink() and len(findings) < MAX_FINDINGS:
                label = shown_path(str((here / name).relative_to(root)))
                mend = "submit the file itself"
                findings.append(
                    Finding(label, None, "no links", "a symbolic link", mend, "error", rule=f"{ruleset}/file")
                )
        folders[:] = sorted(name for name in folders if name != _POWER and not (here / name).is_symlink())
        logs = sorted(name for name in files if fnmatchcase(name, LOG_NAMES) and not (here / name).is_symlink())
        if logs:
            groups.append(Group(root, here, logs))
    if not groups:
        raise UserError(f"{path} holds no log: {LOG_NAMES} is what MLPerf names them; give the log itself")
    return Package(groups, findings)


def _refuse(error: OSError) -> NoReturn:
    raise UserError(f"cannot review {error.filename}: {error.strerror}") from error
