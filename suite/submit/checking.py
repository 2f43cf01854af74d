"""Check what a reviewer would find in a submission, and what it lacks, before anything of it is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from suite.review.kinds import place
from suite.review.model import Report, report
from suite.review.progress import bar
from suite.rules.finding import Finding
from suite.rules.reading import WAIVERS
from suite.rules.submission import is_within, survey
from suite.rules.waivers import Waiver, WaiverFile

# Rules whose notes say that a result is not complete.
LACKS = ("runs.3", "runs.6", "division.4", "audit.1")
CODE = "package.9"  # its breach makes a submission partial: the code may become available later


@dataclass
class Checked:
    """`broken` keeps a submission from being written; what is `missing` makes it partial; `remarks` only inform."""

    review: Report
    broken: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def check(staged: Path, org: str, data_dir: str | None) -> Checked:
    """Review the staged submission of `org` by rules.md."""
    with bar() as progress:
        made = Checked(report(staged, subject=org, data_dir=data_dir, progress=progress))
    asked = list(_asked(staged))
    for finding in made.review.findings:
        if finding.rule == CODE and finding.severity != "note":
            made.missing.append(_said(finding))
        elif finding.severity == "fail" and any(waiver.covers(each) for waiver, each in _below(asked, finding)):
            made.missing.append(f"{_said(finding)}; a waiver is asked for")
        elif finding.severity == "fail":
            made.broken.append(_said(finding))
        elif finding.severity == "error":
            made.missing.append(
                f"{finding.file}: {finding.rule} could not be checked: {finding.expected}; {finding.mend}"
            )
        elif finding.rule in LACKS:
            made.missing.append(_said(finding))
        else:
            made.remarks.append(_said(finding))
    return made


def _asked(staged: Path) -> Iterator[tuple[str, Waiver]]:
    """The waivers that the submission asks for, each with the folder of its file."""
    for folder in survey(staged).waivers:
        file = WaiverFile.read(staged / folder / WAIVERS, WAIVERS, applied=False, rules=None)
        yield from ((folder, waiver) for _, waiver in file.waivers)


def _below(asked: Iterable[tuple[str, Waiver]], finding: Finding) -> Iterator[tuple[Waiver, Finding]]:
    """Each waiver asked for in a folder above the finding, with the finding's file relative to that folder."""
    for folder, waiver in asked:
        if is_within(finding.file, folder):
            yield waiver, replace(finding, file=finding.file.removeprefix(folder).lstrip("/") or ".")


def _said(finding: Finding) -> str:
    return f"{place(finding)}: {finding.rule}: expected {finding.expected}, found {finding.found}; {finding.mend}"
