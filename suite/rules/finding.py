"""What a check reports, and the registries in which each check stands under its rule's id."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, Literal, TypeVar

from suite.errors import printable

Severity = Literal["fail", "error", "note"]

MAX_FINDINGS = 1000  # of one rule in one run
_MAX_SHOWN = 200  # characters


@dataclass(frozen=True)
class Finding:
    """One breach of a rule, or what a reviewer should know: `severity` is `fail`, `error` or `note`.

    `fail` breaks the rule, `error` means that it could not be checked. `line` counts from 1 and is None when no line is
    at fault. As a check yields it, `file` is relative to the check's subject, `expected` and `found` may be any values
    of a submission, and `rule` is the registry's to fill in; as a review has it, `file` is relative to what was
    reviewed and all are short plain text, safe to print. `mend` is our own text.
    """

    rule: str = field(default="", kw_only=True)
    file: str
    line: int | None
    expected: Any
    found: Any
    mend: str
    severity: Severity = "fail"


def shown(value: Any) -> str:
    """`value` in one short line without control characters: text as it is, everything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) > _MAX_SHOWN:
        text = text[:_MAX_SHOWN] + "..."
    return printable(text)


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

    def findings(self, subject: Subject, label: str = "") -> list[Finding]:
        """All findings in `subject`, whose files lie in the folder `label` of what is reviewed."""
        return [
            Finding(
                shown(f"{label}/{finding.file}" if label else finding.file),
                finding.line,
                shown(finding.expected),
                shown(finding.found),
                finding.mend,
                finding.severity,
                rule=rule,
            )
            for rule, check in self.by_rule.items()
            for finding in islice(check(subject), MAX_FINDINGS)
        ]
