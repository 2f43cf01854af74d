"""What a folder holds: one run's evidence, the runs of one result, or a package with several results below it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from suite.errors import UserError
from suite.record.evidence import MANIFEST, POWER, PREDICTIONS
from suite.rules import seals, waivers
from suite.rules.finding import MAX_FINDINGS, PACKAGE_AS_WRITTEN, Checks, Finding
from suite.rules.reading import LIMITS, RUN_FOLDER, WAIVERS
from suite.store.disk import LINK, entries, odd

MAX_DEPTH = 8  # of folders below the one that is reviewed
MAX_ENTRIES = 50_000
MAX_RUNS = 5000
MAX_BYTES = 16 << 30  # of evidence, which is read and dropped run by run
MAX_KEPT_BYTES = 32 << 20  # of what stays in memory as values, since runs are compared with each other
MAX_ASKED_BYTES = 1 << 20  # of waivers, which are slow to read

_GIVE = (
    "give the out= folder of python -m suite.run, a folder that holds such folders, "
    "or one of them as .zip, .tar, .tar.xz, .tar.gz or .tar.bz2"
)
_ROUND = (
    "if these are logs of MLPerf, name the round: suite review PATH --ruleset mlperf-X.Y, suite results mlperf-X.Y=PATH"
)


@dataclass(frozen=True)
class Result:
    """The evidence of one result. `path` is relative to what is reviewed, "" for that itself.

    `runs` are the names of the runs' folders; a single run that lies in `path` itself has the name "".
    """

    path: str
    runs: tuple[str, ...]


@dataclass
class Submission:
    """What lies in `root`.

    `waivers` are the folders that hold a waivers.yaml, `sealed` those that hold a submission.json, `unsealed` those
    that are laid out as if they did. `unsafe` are the links and special files outside evidence, with what they are;
    `others` is what else lies beside the runs of a result. All paths are relative to `root`.
    """

    root: Path
    results: list[Result] = field(default_factory=list)
    waivers: list[str] = field(default_factory=list)
    sealed: list[str] = field(default_factory=list)
    unsealed: list[str] = field(default_factory=list)
    unsafe: dict[str, str] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)

    @property
    def most(self) -> int:
        """How many findings of a rule are kept for each package, so that none hides what is found in another."""
        return max(1, MAX_FINDINGS // max(1, len(self.sealed)))

    def package_of(self, path: str) -> str | None:
        """The folder whose submission.json lies nearest above `path`, None if none does."""
        above = (folder for folder in self.sealed if is_within(path, folder))
        return max(above, key=len, default=None)


FOLDERS: Checks[Submission] = Checks()


@FOLDERS.rule("package.1")
def plain_files(submission: Submission) -> Iterator[Finding]:
    """Outside evidence there are no links or special files: what a link leads to is not in the package."""
    for path, found in submission.unsafe.items():
        yield Finding(
            path, None, "plain files and folders, no links", found, "submit what it stands for, or leave it out"
        )


@FOLDERS.rule("package.5")
def nothing_else(submission: Submission) -> Iterator[Finding]:
    """A note for what else lies beside the runs of a result, since it is not reviewed."""
    for path in submission.others:
        yield Finding(path, None, "only runs", "another entry, not reviewed", "leave it out", "note")


@FOLDERS.rule("package.6")
def as_sealed(submission: Submission) -> Iterator[Finding]:
    """The files below a submission.json are those that it seals."""
    for folder in submission.sealed:
        for finding in islice(seals.findings(submission.root / folder), submission.most):
            yield replace(finding, file=join(folder, finding.file))
        if any(folder != other and is_within(folder, other) for other in submission.sealed):
            yield Finding(
                join(folder, seals.SEAL), None, "one seal, over all of a package", "one within it", PACKAGE_AS_WRITTEN
            )
    for folder in submission.unsealed:
        expected = f"a seal beside {seals.RESULTS}/, over all of the package"
        yield Finding(join(folder, seals.SEAL), None, expected, "no such file", PACKAGE_AS_WRITTEN)


@FOLDERS.rule("package.8")
def laid_out(submission: Submission) -> Iterator[Finding]:
    """A sealed package holds nothing outside its layout."""
    for folder in submission.sealed:
        for finding in islice(seals.strays(submission.root / folder), submission.most):
            yield replace(finding, file=join(folder, finding.file))


def join(folder: str, name: str) -> str:
    """`folder/name`, or `name` where the folder is the one that is reviewed."""
    return f"{folder}/{name}" if folder and name else folder or name


def is_within(path: str, folder: str) -> bool:
    """Whether a relative path is that of the folder, or lies below it at any depth; below "" everything lies."""
    return not folder or path == folder or path.startswith(f"{folder}/")


def survey(root: Path) -> Submission:
    """Find the results in `root` and below it, without following links.

    A result's own subfolders, and the systems and code of a package, are not searched for further results.

    Raises UserError if there is no result, or if there are more files and folders than the limits allow.
    """
    found, seen = Submission(root), list[str]()
    pending = [("", 0)]
    give = _ROUND if seals.RESULT.match(root.name) else _GIVE
    while pending:
        path, depth = pending.pop()
        folders, names, runs, unsafe = [], [], [], {}
        try:
            with os.scandir(root / path) as listed:
                for entry in listed:
                    seen.append(path or entry.name)
                    _check_count(root, seen)
                    names.append(entry.name)
                    if RUN_FOLDER.match(entry.name):
                        runs.append(entry.name)
                    elif what := odd(entry):
                        unsafe[entry.name] = what
                    elif entry.is_dir():
                        folders.append(entry.name)
        except OSError as error:
            raise UserError(f"cannot review {root / path}: {error.strerror}; {give}") from error
        if any(map(seals.RESULT.match, names)):
            give = _ROUND
        if WAIVERS in names:
            found.waivers.append(path)
        if seals.SEAL in names:
            found.sealed.append(path)
        elif seals.RESULTS in (lower := {name.lower() for name in folders}) and lower & {*seals.BESIDE}:
            found.unsealed.append(path)
        aside = {*folders} & {*seals.BESIDE} if seals.SEAL in names else set()  # searched for links alone
        if runs or LIMITS.keys() & names:
            labels = tuple(sorted(runs, key=lambda name: int(name[4:]))) or ("",)
            found.results.append(Result(path, labels))
            found.waivers += [join(path, label) for label in labels if label and _plain(root / path / label / WAIVERS)]
            if not runs:
                continue  # the survey of the evidence reports what else lies there
            known = {*runs, *unsafe, *(name for name in names if name not in folders and _known(name))}
            found.others += (join(path, name) for name in names if name not in known)
            aside = {*folders}
        elif (further := sorted({*folders} - aside, reverse=True)) and depth == MAX_DEPTH:
            deep = join(path, further[-1])
            raise UserError(f"cannot review {root}: {deep} is nested more than {MAX_DEPTH} folders deep; leave it out")
        else:
            pending += [(join(path, name), depth + 1) for name in further]
        for folder in sorted(aside):
            for below, what in entries(root / path / folder):
                seen.append(path or folder)
                _check_count(root, seen)
                if what:
                    unsafe[join(folder, below)] = what
        found.unsafe |= {join(path, name): what for name, what in unsafe.items()}
    if not found.results:
        link = next((path for path, what in found.unsafe.items() if what == LINK), None)
        passed = f"; {link} is {LINK}, and links are not followed" if link else ""
        raise UserError(f"{root} holds no evidence: neither log.txt nor run_1; {give}{passed}")
    return found


def _check_count(root: Path, seen: list[str]) -> None:
    if len(seen) > MAX_ENTRIES:
        raise _too_much(root, f"it holds more than {MAX_ENTRIES} files and folders", ((path, 1) for path in seen))


def _too_much(root: Path, said: str, sizes: Iterable[tuple[str, int]]) -> UserError:
    """The error for more than is reviewed. Names the folder in `root` that holds the largest part by `sizes`."""
    parts = Counter[str]()
    for path, size in sizes:
        parts[path.partition("/")[0]] += size
    largest = max(parts, key=parts.__getitem__)
    return UserError(f"cannot review {root}: {said}, the largest part in {largest or '.'}; give single results")


def _known(name: str) -> bool:
    """Whether a file of this name belongs beside the runs of a result."""
    return name in (WAIVERS, seals.SEAL, seals.SIGNATURE) or seals.RESULT.match(name) is not None


def _plain(path: Path) -> bool:
    return path.is_file() and not path.parent.is_symlink()


def check_size(root: Path, submission: Submission) -> None:
    """Raise UserError if the evidence is too large for all runs to be read, and compared in memory."""
    paths = [join(result.path, run) for result in submission.results for run in result.runs]
    if len(paths) > MAX_RUNS:
        raise _too_much(root, f"it holds more than {MAX_RUNS} runs", ((path, 1) for path in paths))
    files = [(path, name, limit) for path in paths for name, (limit, _) in LIMITS.items()]
    files += [(folder, WAIVERS, waivers.MAX_BYTES) for folder in submission.waivers]
    sizes = {
        (path, name): min((root / path / name).lstat().st_size, limit)
        for path, name, limit in files
        if os.path.lexists(root / path / name)
    }
    for names, most, what in (
        (LIMITS.keys() - {MANIFEST, POWER, PREDICTIONS}, MAX_KEPT_BYTES, "logs and descriptions"),
        ({WAIVERS}, MAX_ASKED_BYTES, "waivers"),
        (LIMITS.keys(), MAX_BYTES, "all"),
    ):
        parts = [(path, size) for (path, name), size in sizes.items() if name in names]
        if sum(size for _, size in parts) > most:
            raise _too_much(root, f"its evidence, {what}, is of more than {most >> 20} MiB", parts)
