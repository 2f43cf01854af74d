"""What a reviewer would find in a submission, and what it lacks, before anything of it is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from suite.errors import shown
from suite.mlperf import packages, systems
from suite.review.model import Report, report
from suite.review.progress import bar
from suite.rules.claims import UNNAMED, fitting
from suite.rules.finding import Finding
from suite.submit.collecting import Collected
from suite.submit.staging import Declared

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


def check(staged: Path, results: Sequence[Collected], declared: Declared, data_dir: str | None) -> Checked:
    """Review the staged submission by rules.md and by MLPerf's package layout, and hold its logs to the declaration."""
    with bar() as progress:
        made = Checked(report(staged, subject=declared.org, data_dir=data_dir, progress=progress))
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
    for result in results:
        if declared.token is not None:
            made.broken += [
                f"{result.place}/{label}: its log says token={shown(run.token)}, the command token={declared.token}"
                for label, run in result.logs()
                if run.token != declared.token
            ]
        fits = fitting(declared.org, declared.division, declared.category)
        for name, logged in (("org", result.org), ("division", result.division), ("category", result.status)):
            if logged not in fits[name]:
                said = getattr(declared, name)
                mend = ", so that anyone could submit it; run with submitter=" + declared.org
                made.broken.append(
                    f"{result.place}: its log says {logged}, the command {name}={said}"
                    + (mend if (name, logged) == ("org", UNNAMED) else "")
                )
    for group in packages.survey(staged.parent, MLPERF).groups:
        made.broken += [_said(each) for each in systems.findings(group, MLPERF) if each.severity != "note"]
    return made


def _said(finding: Finding) -> str:
    where = finding.file.removesuffix("/.") if finding.line is None else f"{finding.file}:{finding.line}"
    return f"{where}: {finding.rule}: expected {finding.expected}, found {finding.found}; {finding.mend}"
