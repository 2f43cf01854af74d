"""Findings of one kind, which are shown once, with their count and their places."""

from __future__ import annotations

import re
from dataclasses import dataclass

from suite.review.model import Report
from suite.rules.finding import Finding
from suite.rules.waivers import Waiver

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")
_MOST_FOUND = 3  # different values found that are listed


@dataclass(frozen=True)
class Kind:
    """Findings of one rule that expect the same, except for numbers, and have the same remedy. The first is shown."""

    findings: list[Finding]
    waiver: Waiver | None

    @property
    def first(self) -> Finding:
        """The finding that is shown."""
        return self.findings[0]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.findings)

    @property
    def found(self) -> str:
        """What was found: the first few different values if all expect the same, else the first finding's."""
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
        asked = _NUMBER.sub("#", finding.expected)
        key = (finding.rule, finding.severity, asked, finding.mend, waiver.granted if waiver else "")
        found.setdefault(key, Kind([], waiver)).findings.append(finding)
    return list(found.values())
