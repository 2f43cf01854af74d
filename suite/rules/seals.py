"""The seal of a submission: `submission.json`, which names every file below its folder with its sha256.

{"version": 1, "org": ..., "division": ..., "category": ..., "token": ..., "suite_version": ..., "missing": [...],
 "results": [{"path": ..., "benchmark": ..., ...}], "files": {"systems/x.json": "<sha256>", ...}}
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from suite.record.evidence import LOG
from suite.record.names import problem
from suite.record.parsing import MalformedError, is_sha256, json_object
from suite.record.states import SMALL
from suite.rules.finding import PACKAGE_AS_WRITTEN, Finding
from suite.rules.reading import LIMITS
from suite.store.disk import LINK, UnsafeFile, entries, read_safely, reason, sum_or_reason

SEAL = "submission.json"
SIGNATURE = "submission.json.sig"  # of the seal, by `ssh-keygen -Y sign`
MAX_BYTES = 16 << 20  # of the seal
MAX_FILES = 50_000
MAX_FILE_BYTES = max(SMALL, *(limit for limit, _ in LIMITS.values()))
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}\Z")  # of a system, a benchmark's folder
RESULTS = "results"
BESIDE = ("systems", "benchmarks")  # the folders that stand beside the results

RESULT = re.compile(r"result_(0|[1-9][0-9]{0,3})\.txt\Z")
_LOG = re.compile(rf"(results/[^/]+/[^/]+)/run_([1-9][0-9]{{0,3}})/{re.escape(LOG)}\Z")
_PLACE = re.compile(r"systems/[^/]+\.json\Z|benchmarks/[^/]+/implementations/[^/]+/.")


@dataclass(frozen=True)
class Seal:
    """What `submission.json` says. `files` gives the sha256 of each file by its path below the seal's folder.

    `token` is the round's token, which every run was made with; None if the submission belongs to no round.
    """

    org: str
    division: str
    category: str
    token: str | None
    results: list[dict[str, Any]]
    missing: list[str]
    files: dict[str, str]

    @classmethod
    def read(cls, folder: Path) -> Seal:
        """The seal of the submission in `folder`. Raises MalformedError, UnsafeFile or OSError."""
        values = json_object(read_safely(folder / SEAL, MAX_BYTES))
        files, results, missing = (values.get(name) for name in ("files", "results", "missing"))
        org, division, category, token = (values.get(name) for name in ("org", "division", "category", "token"))
        if (
            values.get("version") != 1
            or not (isinstance(org, str) and not problem(org))
            or not (isinstance(division, str) and NAME.match(division))
            or not (isinstance(category, str) and NAME.match(category))
            or not (token is None or isinstance(token, str))
            or not (isinstance(results, list) and all(map(_is_result, results)))
            or len({each["path"] for each in results}) < len(results)  # a result has one entry
            or not (isinstance(missing, list) and all(isinstance(each, str) for each in missing))
            or not isinstance(files, dict)
        ):
            raise MalformedError("not a seal of version 1 with org, division, category, results, missing and files", 1)
        for path, sha256 in files.items():
            if not _inside(path) or not is_sha256(sha256):
                raise MalformedError(f"files: {path!r:.100} is no path within the submission, or has no sha256")
        return cls(org, division, category, token, results, missing, files)

    @classmethod
    def found(cls, folder: Path) -> Seal | None:
        """The seal of the submission in `folder`; None if it cannot be read, which `findings` reports."""
        try:
            return cls.read(folder)
        except (MalformedError, UnsafeFile, OSError):
            return None


def _is_result(value: Any) -> bool:
    """Whether a value can be an entry of `results`: a mapping with a `path` like results/SYSTEM/BENCHMARK."""
    if not isinstance(value, dict) or not isinstance(path := value.get("path"), str):
        return False
    head, *below = path.split("/")
    return head == "results" and len(below) == 2 and all(map(NAME.match, below))


def findings(folder: Path) -> Iterator[Finding]:
    """Where the submission in `folder` differs from its seal. Paths are relative to `folder`."""
    try:
        seal = Seal.read(folder)
    except (MalformedError, UnsafeFile, OSError) as error:
        yield Finding(SEAL, getattr(error, "line", None), "a seal of version 1", reason(error), PACKAGE_AS_WRITTEN)
        return
    there = set(islice(_files(folder), MAX_FILES + 1))
    if len(there) > MAX_FILES:
        yield Finding(".", None, f"at most {MAX_FILES} files", "more", PACKAGE_AS_WRITTEN)
        return
    for path in sorted(seal.files.keys() - there):
        yield Finding(path, None, f"sha256 {seal.files[path]}, as {SEAL} has it", "no such file", PACKAGE_AS_WRITTEN)
    for path in sorted(there - seal.files.keys()):
        yield Finding(path, None, f"only files that {SEAL} names", "another file", PACKAGE_AS_WRITTEN)
    for path in sorted(seal.files.keys() & there):
        found = sum_or_reason(folder / path, MAX_FILE_BYTES)
        if found != seal.files[path]:
            yield Finding(path, None, f"sha256 {seal.files[path]}, as {SEAL} has it", found, PACKAGE_AS_WRITTEN)
    yield from _copies(seal.files)


def strays(folder: Path) -> Iterator[Finding]:
    """What has no place in the layout of the submission in `folder`, such as an empty folder or another case."""
    with os.scandir(folder) as entries:
        there = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in islice(entries, MAX_FILES))
    for name, is_folder in there:
        if name not in ((RESULTS, *BESIDE) if is_folder else (SEAL, SIGNATURE)):
            expected = f"only {SEAL}, its signature, {RESULTS}/, {'/, '.join(BESIDE)}/"
            yield Finding(name, None, expected, "a folder" if is_folder else "a file", PACKAGE_AS_WRITTEN)
    if (seal := Seal.found(folder)) is None:
        return
    places = {each["path"] for each in seal.results}
    for path in sorted(islice(_files(folder), MAX_FILES)):
        top, *below = path.split("/")
        if top in BESIDE and not _PLACE.match(path):
            expected = "systems/SYSTEM.json, or benchmarks/BENCHMARK/implementations/REVISION/..."
            yield Finding(path, None, expected, "another file", PACKAGE_AS_WRITTEN)
        if top == RESULTS and (len(below) < 3 or "/".join((top, *below[:2])) not in places):
            expected = f"{RESULTS}/SYSTEM/BENCHMARK/..., of a result that {SEAL} has"
            yield Finding(path, None, expected, "another file", PACKAGE_AS_WRITTEN)


def _copies(files: Mapping[str, str]) -> Iterator[Finding]:
    """Where a log under MLPerf's name, `result_<i>.txt`, is missing or differs from the log of `run_<i + 1>`."""
    for path, sha256 in sorted(files.items()):
        folder, _, name = path.rpartition("/")
        if not folder.startswith(f"{RESULTS}/"):
            continue  # code may bear any name
        if match := RESULT.match(name):
            log = f"{folder}/run_{int(match[1]) + 1}/{LOG}"
            if files.get(log) != sha256:
                yield Finding(path, None, f"the bytes of {log}", "others", PACKAGE_AS_WRITTEN)
        elif name.startswith("result_"):
            yield Finding(
                path, None, "a name result_<i>.txt, for the log of run_<i+1>", "another name", PACKAGE_AS_WRITTEN
            )
        elif match := _LOG.match(path):
            again = f"{match[1]}/result_{int(match[2]) - 1}.txt"
            if again not in files:
                yield Finding(again, None, f"the bytes of {path}", "no such file", PACKAGE_AS_WRITTEN)
        elif name == LOG and folder.count("/") <= 3:  # deeper ones are code
            yield Finding(path, None, f"{RESULTS}/SYSTEM/BENCHMARK/run_N/{LOG}", "a log elsewhere", PACKAGE_AS_WRITTEN)


def _files(folder: Path) -> Iterator[str]:
    """The paths of the files below `folder`, without the seal, its signature and links. No link is followed."""
    for path, what in entries(folder):
        if path not in (SEAL, SIGNATURE) and what != LINK and not (folder / path).is_dir():
            yield path


def _inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    plain = bool(parts) and str(PurePosixPath(*parts)) == path and path.isprintable()
    return plain and not path.startswith("/") and ".." not in parts
