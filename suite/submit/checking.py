"""What a reviewer would find in a submission, and what it lacks, before anything of it is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from suite.mlperf import packages, systems
from suite.review.model import Report, report
from suite.review.progress import bar
from suite.rules.finding import Finding

MLPERF = "mlperf-6.1"  # the round whose package layout is kept to
# Notes of the review that say that a result is no full one.
LACKS = ("runs.3", "runs.6", "division.4", "audit.1")
CODE = "package.9"  # whose breach makes a submission partial: the code of what was run may be had later


@dataclass
class Checked:
    """`broken` keeps a submission from being written; what is `missing` makes it partial; `remarks` only inform."""

    review: Report
    broken: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def check(staged: Path, org: str, data_dir: str | None) -> Checked:
    """Review the staged submission of `org` by rules.md and by MLPerf's package layout."""
    with bar() as progress:
        made = Checked(report(staged, subject=org, data_dir=data_dir, progress=progress))
    for finding in made.review.findings:
        if finding.rule == CODE:
            made.missing.append(_said(finding))
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
    for group in packages.survey(staged.parent, MLPERF).groups:
        made.broken += [_said(each) for each in systems.findings(group, MLPERF) if each.severity != "note"]
    return made


def _said(finding: Finding) -> str:
    where = finding.file.removesuffix("/.") if finding.line is None else f"{finding.file}:{finding.line}"
    return f"{where}: {finding.rule}: expected {finding.expected}, found {finding.found}; {finding.mend}"
