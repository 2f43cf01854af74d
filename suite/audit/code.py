"""The implementation that a run was trained with, copied to a folder of its own: no other code of a submission runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from suite import config
from suite.audit.subject import Run
from suite.config.contestant import Contestant
from suite.config.folder import ROOT
from suite.errors import UserError, shown
from suite.record import git
from suite.record.parsing import MalformedError
from suite.rules.code import SHARED, at_revision, belongs, blobs, here, unlike_here
from suite.rules.implementation import contestant_of
from suite.rules.revision import revision_of
from suite.rules.seals import Seal
from suite.store import code as code_store
from suite.store.code import CODE
from suite.store.disk import UnsafeFile, entries, read_safely

MAX_BYTES = 4 << 20  # of a file of code
MAX_FILES = 1000
SUFFIXES = (".py", ".txt", ".json", ".yaml")


@dataclass(frozen=True)
class Code:
    """Files by their path in the project, their `source`, and a `remark` about it for the auditor.

    `others` are the reference's files that differ from the auditor's copy, if that does not have its revision in its
    history.
    """

    source: str
    files: dict[str, bytes]
    remark: str = ""
    others: tuple[str, ...] = ()

    def frameworks(self, task: str) -> list[str]:
        """The frameworks for which the files hold a reference of `task`."""
        names = config.names("framework")
        module = f"reference_impls/{task}"
        return [name for name in names if {f"{module}/{name}.py", f"{module}/{name}/__init__.py"} & self.files.keys()]

    def install(self, folder: Path) -> Path:
        """Write the files below the new `folder`, and return it."""
        for name, content in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        for package in ("reference_impls", "tasks"):
            (folder / package).mkdir(parents=True, exist_ok=True)
            (folder / package / "__init__.py").touch()
        return folder


def code(run: Run, root: Path, result: str, package: str | None) -> Code:
    """The code of a run of the result at `result`: its package's, else its git revision's, else the auditor's copy.

    The files of an implementation that is not the reference are added, from the package or the run's evidence.

    `package` is the folder of the package below `root`, None if there is none. Raises UserError for code that cannot be
    read.
    """
    task = run.benchmark.task
    if package is not None:
        found = _packed(root / package, PurePosixPath(result).relative_to(package).as_posix(), task)
        if found:
            return _compared(found, run)
    made, contestant = _of_the_suite(run, task), contestant_of(run.evidence)
    if contestant is None:
        return made
    source = f"{contestant.name}, kept with the evidence, and {made.source}"
    return replace(made, source=source, files={**made.files, **_kept(run, contestant)})


def _compared(made: Code, run: Run) -> Code:
    """Code marked where it differs from this copy; not if that has the revision in its history, as the review finds."""
    revision = revision_of(run.evidence)
    if revision and git.descends_from(revision) and blobs(revision, run.benchmark):
        return made
    theirs = {name: content for name, content in made.files.items() if not name.startswith(f"{CODE}/")}
    others = unlike_here(code_store.sums(theirs))
    remark = shown(f"not as in this copy of the suite: {', '.join(others)}") if others else made.remark
    return replace(made, remark=remark, others=tuple(others))


def _kept(run: Run, contestant: Contestant) -> dict[str, bytes]:
    """The files of the run's own implementation; the review has found that they are those that trained."""
    names = [f"{CODE}/{name}" for name in contestant.files]
    try:
        return {name: read_safely(run.folder / name, MAX_BYTES) for name in names}
    except (UnsafeFile, OSError) as error:
        raise UserError(f"{run.label}: its implementation cannot be read ({error})") from error


def _of_the_suite(run: Run, task: str) -> Code:
    revision, dirty = revision_of(run.evidence), run.evidence.described("git", "dirty")
    why = "its revision is not in this repository" if revision else "the run names no revision"
    if revision and (known := at_revision(revision, run.benchmark)):
        remark = "the run had changes that no revision holds" if dirty else ""
        made = Code(f"git revision {revision[:12]}", {name: known[name] for name in _wanted(known, task)}, remark)
        if made.frameworks(task):
            return _compared(made, run)
        why = f"its revision holds no reference of {task}"
    wanted = _wanted(here(run.benchmark), task)
    return Code("this copy of the suite", {name: (ROOT / name).read_bytes() for name in wanted}, why)


def _packed(package: Path, result: str, task: str) -> Code | None:
    """The code that a package holds for a result, None if it holds none."""
    try:
        entry = next((each for each in Seal.read(package).results if each.get("path") == result), {})
    except (MalformedError, UnsafeFile, OSError) as error:
        raise UserError(f"{package.name}: its seal cannot be read ({error})") from error
    at = entry.get("implementation")
    if not isinstance(at, str) or PurePosixPath(at).parts[:1] != ("benchmarks",) or ".." in PurePosixPath(at).parts:
        return None
    if any((package / parent).is_symlink() for parent in (*PurePosixPath(at).parents, PurePosixPath(at))):
        raise UserError(f"{package.name}: {at} is a link")
    names = [path for path, odd in entries(package / at) if not odd and not (package / at / path).is_dir()]
    try:
        files = {name: read_safely(package / at / name, MAX_BYTES) for name in _wanted(names, task)}
    except (UnsafeFile, OSError) as error:
        raise UserError(f"{package.name}: {at} cannot be read ({error})") from error
    return Code(f"{package.name}/{at}", files) if files else None


def _wanted(names: Iterable[str], task: str) -> list[str]:
    """The `names` that an implementation of `task` needs: its own files, the shared ones, and the task's."""
    ours = (SHARED, f"tasks/{task}/")
    found = [
        name
        for name in names
        if name.startswith(f"{CODE}/") or (name.startswith(ours) and belongs(name, task) and name.endswith(SUFFIXES))
    ]
    if len(found) > MAX_FILES:
        raise UserError(f"an implementation of more than {MAX_FILES} files")
    return sorted(found)
