"""Findings, which checks report, and the registries that hold the checks by their rules' ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from posixpath import dirname
from typing import Any, Generic, Literal, TypeVar

from suite.errors import shown, shown_path

Severity = Literal["fail", "error", "note"]
Verdict = Literal["pass", "fail", "error"]
EXIT_CODES: dict[Verdict, int] = {"pass": 0, "fail": 1, "error": 2}
Progress = Callable[[int, int], None]  # logs reviewed so far, logs in all

# What mends evidence that was changed: several modules of checks say it.
LOG_AS_WRITTEN = "submit the log as the suite wrote it"
FOLDER_AS_WRITTEN = "submit the folder as the suite wrote it"
FILE_AS_WRITTEN = "submit the file as the suite wrote it"
PACKAGE_AS_WRITTEN = "submit the package as suite submit wrote it"

MAX_FINDINGS = 1000  # of one rule and severity in one run


@dataclass(frozen=True)
class Finding:
    """One breach of a rule, or something that a reviewer should know.

    `severity` is `fail` if the rule is broken, `error` if it could not be checked, else `note`. `line` counts from 1;
    None when no line is at fault. In a check's finding `file` is relative to the check's subject, `expected` and
    `found` may be any values of a submission, and `rule` is filled in later by the registry. In a review's finding
    `file` is relative to what was reviewed, and all are short plain text, safe to print. `mend` is our own text.
    """

    rule: str = field(default="", kw_only=True)
    file: str
    line: int | None
    expected: Any
    found: Any
    mend: str
    severity: Severity = "fail"


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """The verdict that follows from findings; notes alone pass."""
    severities = {finding.severity for finding in findings}
    return "fail" if "fail" in severities else "error" if "error" in severities else "pass"


Subject = TypeVar("Subject")
Check = Callable[[Subject], Iterable[Finding]]


class Checks(Generic[Subject]):
    """The checks of one kind of subject by rule id: pure functions that never raise, whatever the subject holds."""

    def __init__(self) -> None:
        self.by_rule: dict[str, Check[Subject]] = {}

    def rule(self, rule: str) -> Callable[[Check[Subject]], Check[Subject]]:
        """Register the decorated function as the check of `rule`."""

        def register(check: Check[Subject]) -> Check[Subject]:
            assert rule not in self.by_rule, f"two checks of rule {rule}"
            self.by_rule[rule] = check
            return check

        return register

    def findings(
        self, subject: Subject, label: str = "", most: int = MAX_FINDINGS, apart: bool = False
    ) -> list[Finding]:
        """The findings in `subject`, whose files lie in the folder `label` of what is reviewed.

        At most `most` of each rule and severity are kept, so that no number of notes hides a breach. If `apart`, that
        holds for each folder separately, so that none hides what is found in another.
        """
        made = []
        for rule, check in self.by_rule.items():
            kept = Counter[tuple[Severity, str]]()
            for finding in check(subject):
                place = (finding.severity, dirname(finding.file) if apart else "")
                kept[place] += 1
                if kept[place] <= most:
                    made.append(plain(finding, rule, label))
        return made


def plain(finding: Finding, rule: str, label: str) -> Finding:
    """Turn a check's finding into a review's: of `rule`, safe to print, of a subject in the folder `label`."""
    file = finding.file if not label else label if finding.file == "." else f"{label}/{finding.file}"
    expected, found = shown(finding.expected), shown(finding.found) or "nothing"
    return replace(finding, rule=rule, file=shown_path(file), expected=expected, found=found)
