"""The check of what a sealed package says of its runs, in submission.json, in systems/ and in its folders' names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_logging.mllog import constants as keys

from suite.record.evidence import LOG
from suite.record.names import REFERENCE
from suite.record.parsing import MalformedError, json_object, same
from suite.record.system import KEYS, STATUSES, STORAGE
from suite.rules.finding import PACKAGE_AS_WRITTEN, Checks, Finding
from suite.rules.implementation import contestant_of
from suite.rules.reading import Evidence
from suite.rules.revision import revision_of
from suite.rules.seals import SEAL, Seal
from suite.store.disk import UnsafeFile, read_safely, reason

UNNAMED = "unknown"  # the submitter of a run that was made without submitter=
UNDECIDED = keys.RESEARCH  # the status of a run that was made without category=
# The status as MLCommons' checker spells it, by category.
SPELLED = {
    "available": "Available on-premise",
    "cloud": "Available cloud",
    "research": "Research, Development, or Internal (RDI)",
    "preview": "Preview",
}
MAX_DESCRIPTION = 1 << 20

_SYSTEM = re.compile(r"systems/([^/]+)\.json")


@dataclass(frozen=True)
class Sealed:
    """The package in `folder`. `results` are the runs of each result by its path in the package."""

    folder: Path
    seal: Seal
    results: Mapping[str, Sequence[Evidence]]


SEALED: Checks[Sealed] = Checks()


def folder_of(benchmark: str) -> str:
    """The folder of a benchmark: `task-scale`."""
    return benchmark.replace("/", "-")


@SEALED.rule("package.7")
def true_to_its_runs(package: Sealed) -> Iterator[Finding]:
    """What the package says of its runs agrees with the runs' own evidence."""
    seal, results = package.seal, package.results
    if seal.category not in STATUSES:
        yield Finding(SEAL, None, f"category: one of {', '.join(STATUSES)}", seal.category, PACKAGE_AS_WRITTEN)
    said = {each["path"] for each in seal.results}
    for path in sorted(results.keys() - said):
        yield Finding(path, None, f"a result that {SEAL} names", "another one", PACKAGE_AS_WRITTEN)
    for path in sorted(said - results.keys()):
        yield Finding(SEAL, None, f"the evidence of {path}", "none", PACKAGE_AS_WRITTEN)
    for path in sorted(seal.files):
        described = _SYSTEM.fullmatch(path)
        if described and not any(each.startswith(f"results/{described[1]}/") for each in results):
            yield Finding(path, None, "the description of a result's system", "another one", PACKAGE_AS_WRITTEN)
    for claimed in seal.results:
        if runs := results.get(claimed["path"]):
            yield from _result(claimed, runs)
            yield from _declared(seal, claimed["path"], runs[0])
            yield from _of_the_round(seal, claimed["path"], runs)
            yield from _described(package, claimed["path"].split("/")[1], runs[0])


def _result(claimed: Mapping[str, Any], runs: Sequence[Evidence]) -> Iterator[Finding]:
    """Where an entry of the seal, or the name of its folder, disagrees with its runs."""
    _, system, folder = claimed["path"].split("/")
    benchmark = runs[0].value(keys.SUBMISSION_BENCHMARK)
    facts = {
        "benchmark": benchmark,
        "system": system,
        "framework": runs[0].configured("framework"),
        "trained_by": contestant.name if (contestant := contestant_of(runs[0])) else REFERENCE,
        "runs": len(runs),
        "result_id": runs[0].configured("result_id"),
        "revision": revision_of(runs[0]),
    }
    for name, fact in facts.items():
        if name == "trained_by" and name not in claimed and fact == REFERENCE:
            continue  # an older package, from before submitters' own code
        if not same(fact, claimed.get(name)):
            expected = f"{name} {fact} of {claimed['path']}"
            yield Finding(SEAL, None, expected, claimed.get(name), PACKAGE_AS_WRITTEN)
    if isinstance(benchmark, str) and folder != folder_of(benchmark):
        yield Finding(claimed["path"], None, f"a folder {folder_of(benchmark)}", folder, PACKAGE_AS_WRITTEN)


def _declared(seal: Seal, path: str, run: Evidence) -> Iterator[Finding]:
    """Where a log has another submitter, division or category than the seal; a run may have left the category open.

    A log that names no submitter fits no seal: anyone could submit its run.
    """
    submitter = run.line(keys.SUBMISSION_ORG)
    if submitter and submitter.value == UNNAMED == seal.org:
        where, expected = f"{path}/{run.label}/{LOG}", "a log that names its submitter"
        yield Finding(where, submitter.number, expected, UNNAMED, "run with submitter=NAME")
    for name, key, fits in (
        ("org", keys.SUBMISSION_ORG, (seal.org,)),
        ("division", keys.SUBMISSION_DIVISION, (seal.division,)),
        ("category", keys.SUBMISSION_STATUS, (STATUSES.get(seal.category), UNDECIDED)),
    ):
        line = run.line(key)
        if line and line.value not in fits:
            value = getattr(seal, name)
            mend = f"submit runs that were made with {'submitter' if name == 'org' else name}={value}"
            expected = f"a log of {name} {value}, as {SEAL} has it"
            yield Finding(f"{path}/{run.label}/{LOG}", line.number, expected, line.value, mend)


def _of_the_round(seal: Seal, path: str, runs: Sequence[Evidence]) -> Iterator[Finding]:
    """The runs of a round's submission that were made with another token, or with none."""
    for run in runs:
        if seal.token is not None and run.token != seal.token:
            expected = f"a log of token {seal.token}, as {SEAL} has it"
            mend = f"submit runs that were made with token={seal.token}"
            yield Finding(f"{path}/{run.label}/{LOG}", None, expected, run.token, mend)


def _described(package: Sealed, system: str, run: Evidence) -> Iterator[Finding]:
    """Where the description of a system lacks a key, or differs from what was declared or detected."""
    path = f"systems/{system}.json"
    try:
        if (package.folder / "systems").is_symlink():
            raise UnsafeFile("lies behind a symbolic link")
        values = json_object(read_safely(package.folder / path, MAX_DESCRIPTION))
    except (MalformedError, UnsafeFile, OSError) as error:
        yield Finding(path, getattr(error, "line", None), "a system description", reason(error), PACKAGE_AS_WRITTEN)
        return
    seal = package.seal
    status = SPELLED.get(seal.category)
    declared = {"submitter": seal.org, "division": seal.division, "status": status, "system_name": system}
    for key in KEYS:
        text, found = values.get(key), run.described("description", key)
        wanted = declared.get(key) or (found.strip() if isinstance(found, str) else "")
        if not isinstance(text, str):
            yield Finding(path, None, f"{key} as text", text, "leave it empty if it is not known")
        elif wanted and text.strip() != wanted and key != STORAGE:
            yield Finding(path, None, f"{key}: {wanted}", text or "nothing", PACKAGE_AS_WRITTEN)
