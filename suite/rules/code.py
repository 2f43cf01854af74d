"""The check of the code in a package: each result's code is there, byte for byte where git has its revision."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from suite.config.contestant import Contestant
from suite.config.folder import ROOT
from suite.config.models import Benchmark
from suite.record import git
from suite.rules.claims import SEALED, Sealed, folder_of
from suite.rules.finding import PACKAGE_AS_WRITTEN, Finding
from suite.rules.implementation import contestant_of
from suite.rules.reading import Evidence
from suite.rules.revision import revision_of
from suite.rules.seals import MAX_FILE_BYTES, SEAL
from suite.store.code import CODE, differing, misread_below
from suite.store.disk import UnsafeFile, read_safely, sum_or_reason

SHARED = "reference_impls/"


def paths(benchmark: Benchmark) -> list[str]:
    """The paths of a benchmark's code: implementations, data and metric, its configuration and its list of files."""
    listed = benchmark.dataset.files
    lists = [f"conf/files/{listed}.txt"] if isinstance(listed, str) else []
    return [SHARED, f"tasks/{benchmark.task}", f"conf/task/{benchmark.task}.yaml", *lists]


def belongs(name: str, task: str) -> bool:
    """Whether the task needs the file: of `reference_impls/` its own folder and the files beside the folders."""
    return not name.startswith(SHARED) or name.count("/") == 1 or name.startswith(f"{SHARED}{task}/")


def implementation(benchmark: str, name: str) -> str:
    """Where a package holds the code `name` (see `name_of`) that `benchmark` was run with."""
    return f"benchmarks/{folder_of(benchmark)}/implementations/{name}"


def name_of(revision: str, contestant: Contestant | None) -> str:
    """A package's name for code: the first digits of the suite's revision, and of the submitter's code's sha256."""
    return revision[:12] + (f"-{contestant.sha256[:12]}" if contestant else "")


def blobs(revision: str, benchmark: Benchmark) -> Mapping[str, str]:
    """The git blob of each file of the benchmark's code at `revision`, by its path in the project.

    Empty where there is no repository of the project, or it lacks the revision.
    """
    return _blobs(revision, benchmark.task, tuple(paths(benchmark)))


def at_revision(revision: str, benchmark: Benchmark) -> dict[str, bytes]:
    """The content of each file of the benchmark's code at `revision`, by its path; empty where `blobs` is."""
    try:
        return {name: git.output("cat-file", "blob", blob) for name, blob in blobs(revision, benchmark).items()}
    except (OSError, subprocess.SubprocessError):
        return {}


@lru_cache(maxsize=256)
def _blobs(revision: str, task: str, paths: tuple[str, ...]) -> Mapping[str, str]:
    try:
        found = git.blobs(f"{revision}^{{commit}}", *paths)
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return {name: blob for name, blob in found.items() if belongs(name, task)}


@SEALED.rule("package.9")
def code_that_ran(package: Sealed) -> Iterator[Finding]:
    """Each result's code is in the package, and is that of the revision that its runs name."""
    for missing in package.seal.missing:
        yield Finding(SEAL, None, "a complete package", f"missing: {missing}", "complete it with suite submit", "note")
    places = {str(claimed.get("implementation")) for claimed in package.seal.results}
    read: set[tuple[str, str, str | None]] = set()  # what several results name is read once
    for claimed in package.seal.results:
        if runs := package.results.get(claimed["path"]):
            yield from _code(package, claimed, runs[0], read)
    for path in sorted(package.seal.files):
        if path.startswith("benchmarks/") and "/".join(path.split("/")[:4]) not in places:
            yield Finding(path, None, "code that a result names", "other code", PACKAGE_AS_WRITTEN)


def _code(
    package: Sealed, claimed: Mapping[str, Any], run: Evidence, read: set[tuple[str, str, str | None]]
) -> Iterator[Finding]:
    """Where the code of a result is not what its run names."""
    revision, where = revision_of(run), claimed["path"]
    if revision is None or run.described("git", "dirty") is not False or claimed.get("code_missing"):
        expected = f"the code of {where}, of a git revision without changes"
        mend = "run it from a clean checkout, and submit those runs"
        yield Finding(SEAL, None, expected, claimed.get("code_missing") or "another revision's", mend)
        return
    if run.benchmark is None:
        return
    contestant = contestant_of(run)
    place = implementation(run.benchmark.name, name_of(revision, contestant))
    if claimed.get("implementation") != place:
        expected = f"{place}, the code of {where}"
        yield Finding(SEAL, None, expected, claimed.get("implementation"), PACKAGE_AS_WRITTEN)
        return
    named = place, revision, contestant.sha256 if contestant else None
    if named in read:
        return
    read.add(named)
    packed = [path.removeprefix(f"{place}/") for path in package.seal.files if path.startswith(f"{place}/")]
    if links := sorted(parent for parent in _folders(place, packed) if (package.folder / parent).is_symlink()):
        yield Finding(links[0], None, "a folder, no link", "a link: what it leads to is not read", PACKAGE_AS_WRITTEN)
        return
    own = {name.removeprefix(f"{CODE}/") for name in packed if name.startswith(f"{CODE}/")}
    sums = {name: package.seal.files[f"{place}/{CODE}/{name}"] for name in own}
    files = contestant.files if contestant else {}
    for name in differing(files, sums):
        expected = f"sha256 {files[name]}" if name in files else "only files that trained"
        yield Finding(f"{place}/{CODE}/{name}", None, expected, sums.get(name, "no such file"), PACKAGE_AS_WRITTEN)
    read_by_people = sorted(name for name in packed if name.startswith(f"{CODE}/") or name.endswith(".py"))
    for name, problem in misread_below(package.folder / place, read_by_people).items():
        yield Finding(f"{place}/{name}", None, "text that Python reads as a person does", problem, PACKAGE_AS_WRITTEN)
    packed = [name for name in packed if not name.startswith(f"{CODE}/")]
    known = blobs(revision, run.benchmark)
    yield from _held(package.folder / place, place, packed, known) if known else ()
    if not (known and git.descends_from(revision)):
        trained = None if contestant else run.configured("framework")
        sums = {name: package.seal.files[f"{place}/{name}"] for name in packed}
        yield from _unknown(place, sums, run.benchmark, trained)


def _folders(place: str, names: Sequence[str]) -> set[str]:
    """All folders of a package that lead to these files, or to the folder of code, below `place`."""
    paths = [PurePosixPath(place, name) for name in (CODE, *names)]
    return {folder.as_posix() for path in paths for folder in path.parents} - {"."}


def _held(folder: Path, place: str, packed: Sequence[str], known: Mapping[str, str]) -> Iterator[Finding]:
    """Where the packed files differ from the blobs `known` of the revision in the reviewer's repository."""
    for name in sorted(known.keys() - set(packed)):
        yield Finding(f"{place}/{name}", None, "the file of the revision", "no such file", PACKAGE_AS_WRITTEN)
    for name in sorted(packed):
        if name not in known:
            yield Finding(f"{place}/{name}", None, "only files of the revision", "another file", PACKAGE_AS_WRITTEN)
        elif not _is_blob(folder / name, known[name]):
            yield Finding(f"{place}/{name}", None, f"git object {known[name]}", "other bytes", PACKAGE_AS_WRITTEN)


def _unknown(place: str, packed: Mapping[str, str], benchmark: Benchmark, framework: Any) -> Iterator[Finding]:
    """What can be said, by the files' sha256, of code whose revision is not in the history of the reviewer's checkout.

    `framework` is the one that the reference trained in, None if it was not the reference that trained.
    """
    task, reference = f"tasks/{benchmark.task}", f"{SHARED}{benchmark.task}/{framework}"
    needed = [(f"{task}.py", f"{task}/__init__.py"), (f"conf/task/{benchmark.task}.yaml",)]
    if framework is not None:
        needed.append((f"{reference}.py", f"{reference}/__init__.py"))
    for names in needed:
        if not packed.keys() & {*names}:
            yield Finding(f"{place}/{names[-1]}", None, "the code that was run", "no such file", PACKAGE_AS_WRITTEN)
    mend = "update the suite if it has that revision by now; else read the code, and audit it with equivalence=true"
    others, lacking = unlike_here(packed), sorted({*here(benchmark)} - packed.keys())
    found = (
        f"another: {len(others)} of {len(packed)} files unlike the reviewer's, "
        f"and {len(lacking)} of the reviewer's not there"
    )
    yield Finding(place, None, "a revision that the reviewer's checkout descends from", found, mend, "note")
    for name in (*others, *lacking):
        told = "another" if name in packed else "no such file"
        yield Finding(f"{place}/{name}", None, "the file of the reviewer's copy", told, mend, "note")


def here(benchmark: Benchmark) -> Iterator[str]:
    """The names of the files of the benchmark's code in this copy of the suite, without what Python compiled."""
    for path in paths(benchmark):
        found = [ROOT / path] if (ROOT / path).is_file() else (ROOT / path).rglob("*")
        names = (each.relative_to(ROOT).as_posix() for each in found if each.is_file() and each.suffix != ".pyc")
        yield from (name for name in names if belongs(name, benchmark.task))


def unlike_here(sums: Mapping[str, str]) -> list[str]:
    """The names of the files, given with their sha256, that this copy of the suite lacks or has with another."""
    return [name for name, told in sorted(sums.items()) if told != sum_or_reason(ROOT / name, MAX_FILE_BYTES)]


def _is_blob(path: Path, name: str) -> bool:
    """Whether a file is the git blob of this name."""
    try:
        return git.blob_name(read_safely(path, MAX_FILE_BYTES), name) == name
    except (UnsafeFile, OSError):
        return False
