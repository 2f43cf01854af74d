"""Findings of one kind, which are told once, with their count and their places."""

from __future__ import annotations

import re
from dataclasses import dataclass

from suite.review.model import Report
from suite.rules.finding import Finding
from suite.rules.waivers import Waiver

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")
_MOST_FOUND = 3  # different things found that are told


@dataclass(frozen=True)
class Kind:
    """Findings against one rule that ask the same, but for numbers, and are mended alike; the first stands for all."""

    findings: list[Finding]
    waiver: Waiver | None

    @property
    def first(self) -> Finding:
        """The finding that is told."""
        return self.findings[0]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.findings)

    @property
    def found(self) -> str:
        """What was found: where all ask the same, the first few of them, else that of the first."""
        if any(finding.expected != self.first.expected for finding in self.findings):
            return f"{self.first.found} (other figures in the others)"
        different = list(dict.fromkeys(finding.found for finding in self.findings))
        more = len(different) - _MOST_FOUND
        return "; ".join(different[:_MOST_FOUND]) + (f"; {more:,} more" if more > 0 else "")

    @property
    def places(self) -> list[str]:
        """The file and, where one is at fault, the line of each."""
        return list(dict.fromkeys(place(finding) for finding in self.findings))


def place(finding: Finding) -> str:
    """The file and, where one is at fault, the line."""
    return finding.file if finding.line is None else f"{finding.file}:{finding.line}"


def kinds(report: Report) -> list[Kind]:
    """The findings of a report by their kinds, in the report's order."""
    found: dict[tuple[str, ...], Kind] = {}
    for finding in report.findings:
        waiver = report.waived.get(finding)
        granted = (waiver.reason, waiver.reviewer, str(waiver.date)) if waiver else ()
        asked = _NUMBER.sub("#", finding.expected)
        key = (finding.rule, finding.severity, asked, finding.mend, *granted)
        found.setdefault(key, Kind([], waiver)).findings.append(finding)
    return list(found.values())
