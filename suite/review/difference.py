"""How an implementation differs from the reference, line by line, for people who judge the rules without a check."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

from suite.config.contestant import Contestant
from suite.config.folder import ROOT
from suite.errors import printable
from suite.review.model import Report
from suite.rules.code import SHARED
from suite.rules.seals import Seal
from suite.rules.submission import Submission, survey
from suite.rules.verdict import ResultReview
from suite.store.code import CODE, MAX_FILE_BYTES
from suite.store.disk import UnsafeFile, read_safely

MAX_READ = 5000  # lines of a file
MAX_LINES = 2000  # of a file's difference
MAX_PAGE = 20_000  # lines of all differences
MAX_WIDTH = 300  # characters; a longer line is drawn as several
KINDS = {"+": "added", "-": "removed", "@": "place"}


@dataclass(frozen=True)
class File:
    """A file of an implementation, compared with the file `against` of the reference, None if that has no such file.

    `lines` are those of a unified diff, each after its kind: added, removed, place or same; `left_out` counts further
    ones. `problem` says why nothing is shown.
    """

    name: str
    against: str | None = None
    added: int = 0
    removed: int = 0
    lines: tuple[tuple[str, str], ...] = ()
    left_out: int = 0
    problem: str = ""


@dataclass(frozen=True)
class Difference:
    """The files of the implementation that a result was trained with."""

    result: str
    contestant: Contestant
    framework: str
    files: tuple[File, ...]


def differences(report: Report, root: Path) -> list[Difference]:
    """The differences of the results that were not trained by the reference; `root` is what was reviewed."""
    made, room = list[Difference](), MAX_PAGE
    submission = survey(root) if any(result.contestant for result in report.results) else Submission(root)
    for result in report.results:
        if result.contestant:
            made.append(_difference(result, result.contestant, submission, room))
            room -= sum(len(file.lines) for file in made[-1].files)
    return made


def _difference(result: ResultReview, contestant: Contestant, submission: Submission, room: int) -> Difference:
    """The difference of one result. A file is shown if it begins within the first `room` lines."""
    folder, files = _folder(result, contestant, submission), list[File]()
    for name, sha256 in sorted(contestant.files.items()):
        if room <= 0:
            files.append(File(name, problem="is not drawn: a page has so many lines of differences"))
            continue
        files.append(_file(folder / name, name, sha256, _counterpart(result, name == contestant.entry, name)))
        room -= len(files[-1].lines)
    return Difference(result.path or ".", contestant, result.framework or "", tuple(files))


def _folder(result: ResultReview, contestant: Contestant, submission: Submission) -> Path:
    """Where the code lies: with the evidence of the first run, else where its package has sealed those files."""
    root, package = submission.root, submission.package_of(result.path)
    beside = root / PurePosixPath(result.runs[0].path).parent / CODE
    if beside.is_dir() or package is None:
        return beside
    if (seal := Seal.found(root / package)) is None:
        return beside
    held: dict[str, dict[str, str]] = {}
    for path, sha256 in seal.files.items():
        place, inside, name = path.partition(f"/{CODE}/")
        if inside:
            held.setdefault(place, {})[name] = sha256
    return next((root / package / place / CODE for place, files in held.items() if files == contestant.files), beside)


def _counterpart(result: ResultReview, is_entry: bool, name: str) -> str | None:
    """The reference's file to compare with: the framework's for the entry, else the framework's or any of that name."""
    if result.benchmark is None:
        return None
    stems = [f"{result.framework}.py"] if is_entry else [f"{result.framework}_{name}", name]
    places = (f"{SHARED}{result.benchmark.task}/{each}" for each in stems)
    return next((place for place in places if (ROOT / place).is_file()), None)


def _file(path: Path, name: str, sha256: str, against: str | None) -> File:
    """Compare one file. It is shown only if it has the `sha256` that the evidence names."""
    try:
        content = read_safely(path, MAX_FILE_BYTES)
    except (UnsafeFile, OSError):
        return File(name, problem="is not there")
    if hashlib.sha256(content).hexdigest() != sha256:
        return File(name, problem="is not the file that trained")
    ours = _lines((ROOT / against).read_bytes()) if against else []
    theirs = _lines(content)
    changed = list(_changes(ours[:MAX_READ], theirs[:MAX_READ]))
    kinds = [kind for kind, _ in changed]
    drawn = tuple((kind, piece) for kind, line in changed[:MAX_LINES] for piece in _pieces(line))
    left_out = max(0, len(changed) - MAX_LINES) + max(0, len(theirs) - MAX_READ)
    return File(name, against, kinds.count("added"), kinds.count("removed"), drawn, left_out)


def _changes(ours: list[str], theirs: list[str]) -> Iterator[tuple[str, str]]:
    for line in islice(difflib.unified_diff(ours, theirs, lineterm=""), 2, None):  # without the names of the files
        yield KINDS.get(line[:1], "same"), line


def _pieces(line: str) -> Iterator[str]:
    """A whole line, in pieces that fit the page: code far to the right is code that trained, too."""
    for at in range(0, len(line), MAX_WIDTH):
        yield printable(line[at : at + MAX_WIDTH])


def _lines(content: bytes) -> list[str]:
    return content.decode(errors="replace").split("\n")
