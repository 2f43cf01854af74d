"""Waivers: breaches that a reviewer excuses, as data. A waived finding stays visible and fails nothing.

Only a file that the reviewer names (`--waivers`) is applied. A file in the submission is the submitter's request: it is
shown but never applied, since nobody may excuse their own findings.

    waivers:
      - rule: timing.2
        file: run_3/log.txt        # optional: this file only
        reason: The storage of the machine was rebuilt; init is untimed.
        reviewer: A. Reviewer
        date: 2026-11-20
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from posixpath import normpath

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from suite.errors import shown, shown_path
from suite.record.parsing import MalformedError, decoded
from suite.rules.finding import Checks, Finding, Severity
from suite.store.disk import UnsafeFile, read_safely, reason

MAX_BYTES = 64 << 10
# Where these are broken, nothing else that a review says of the submission holds.
NEVER_WAIVED = ("package", "review", "log.1", "log.2")  # chapters and rules

_FIRST_TO_HAVE_IT = timezone(timedelta(hours=14))  # where a day begins first
_MEND = "below `waivers:` give each entry rule, reason, reviewer and date (YYYY-MM-DD), and at most a file besides"


class Waiver(BaseModel):
    """One entry. `file` is the path of the only file whose findings it excuses, None for all files."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)
    rule: str
    reason: str = Field(min_length=1)
    reviewer: str = Field(min_length=1)
    date: str
    file: str | None = None

    @field_validator("rule", "reason", "reviewer", "date")
    @classmethod
    def _plain(cls, text: str) -> str:
        return shown(text)

    @field_validator("date")
    @classmethod
    def _iso(cls, text: str) -> str:
        day = date.fromisoformat(text)
        if day.isoformat() != text:
            raise ValueError("not YYYY-MM-DD")
        if day > datetime.now(_FIRST_TO_HAVE_IT).date():
            raise ValueError("in the future")
        return text

    @field_validator("file")
    @classmethod
    def _normal(cls, text: str | None) -> str | None:
        return None if text is None else shown_path(normpath(text))

    @property
    def sought(self) -> str:
        """What it would excuse, in words."""
        return f"a finding against {self.rule}" + (f" in {self.file}" if self.file else "")

    @property
    def granted(self) -> str:
        """Why, by whom and when it was granted, in words."""
        return f"{self.reason} ({self.reviewer}, {self.date})"

    def covers(self, finding: Finding) -> bool:
        """Whether `finding` is one that this excuses."""
        return waivable(finding.rule) and finding.rule == self.rule and self.file in (None, finding.file)


@dataclass
class WaiverFile:
    """The waivers of one file, each with its line, and what is wrong with the others.

    `rules` are the ids that a waiver may name, None where the ruleset does not list its own; `applied` tells a
    reviewer's file from a submitter's.
    """

    name: str
    applied: bool
    rules: Collection[str] | None
    waivers: list[tuple[int, Waiver]] = field(default_factory=list)
    malformed: list[tuple[int | None, str]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path, name: str, applied: bool, rules: Collection[str] | None) -> WaiverFile:
        """Read the waivers in `path`. No content raises; a reviewer's file that cannot be read raises OSError."""
        made = cls(name, applied, rules)
        try:
            for line, values in _entries(decoded(read_safely(path, MAX_BYTES))):
                try:
                    made.waivers.append((line, Waiver.model_validate(values)))
                except ValidationError as error:
                    first = error.errors()[0]
                    problem = first["msg"].removeprefix("Value error, ")
                    made.malformed.append((line, f"{'.'.join(map(str, first['loc']))}: {problem}"))
        except (MalformedError, UnsafeFile, OSError) as error:
            if applied and isinstance(error, OSError):
                raise
            made.malformed.append((getattr(error, "line", None), reason(error)))
        return made


def waivable(rule: str) -> bool:
    """Whether a reviewer may excuse a breach of `rule`."""
    return rule not in NEVER_WAIVED and rule.partition(".")[0] not in NEVER_WAIVED


WAIVERS: Checks[WaiverFile] = Checks()


@WAIVERS.rule("review.1")
def well_formed(file: WaiverFile) -> Iterator[Finding]:
    """Each entry is complete and names a rule that can be waived. The reviewer's own mistake is an error."""
    severity: Severity = "error" if file.applied else "fail"
    for line, problem in file.malformed:
        yield Finding(file.name, line, "a well-formed waiver", problem, _MEND, severity)
    for line, waiver in file.waivers:
        if not waivable(waiver.rule):
            mend = "leave it out: without this rule nothing else in the submission can be believed"
            yield Finding(file.name, line, "a rule that can be waived", waiver.rule, mend, severity)
        elif file.rules is not None and waiver.rule not in file.rules:
            yield Finding(
                file.name, line, "the id of a rule", waiver.rule, "name a rule by its id, as rules.md", severity
            )


@WAIVERS.rule("review.2")
def requested(file: WaiverFile) -> Iterator[Finding]:
    """A waiver that the submission brings is a request."""
    if file.applied:
        return
    for line, waiver in file.waivers:
        found = f"{waiver.rule}, asked for by {waiver.reviewer}: {waiver.reason}"
        mend = "none; a reviewer who agrees puts it into a file of his own: --waivers FILE"
        yield Finding(file.name, line, "waivers from the reviewer only", found, mend, "note")


def waived(findings: Iterable[Finding], file: WaiverFile) -> dict[Finding, Waiver]:
    """The findings that a reviewer's file excuses, each with the first entry that does."""
    excused: dict[Finding, Waiver] = {}
    for finding in findings:
        for _, waiver in file.waivers:
            if finding.severity != "note" and waiver.covers(finding):
                excused.setdefault(finding, waiver)
    return excused


def idle(findings: Iterable[Finding], file: WaiverFile) -> list[Finding]:
    """A note for each entry of a reviewer's file that excuses none of `findings`. Malformed ones have rule review.1."""
    failing = [finding for finding in findings if finding.severity != "note"]
    mend = "leave it out, or name rule and file as the finding does"
    return [
        Finding(shown(file.name), line, shown(waiver.sought), "none", mend, "note", rule="review.2")
        for line, waiver in file.waivers
        if file.applied and not any(waiver.covers(finding) for finding in failing)
    ]


def _entries(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The entries of a waivers file as text, each with its line. Raises MalformedError."""
    try:
        root = yaml.compose(text, Loader=yaml.BaseLoader)  # nodes only: nothing is constructed
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise MalformedError(f"not YAML: {error.problem}", line) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise MalformedError(f"not YAML: {type(error).__name__}") from error
    top = root.value if isinstance(root, yaml.MappingNode) else []
    if len(top) != 1 or top[0][0].value != "waivers" or not isinstance(top[0][1], yaml.SequenceNode):
        raise MalformedError("not one list called waivers", 1)
    for node in top[0][1].value:
        line = node.start_mark.line + 1
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        if not pairs or not all(isinstance(part, yaml.ScalarNode) for pair in pairs for part in pair):
            raise MalformedError("an entry is not a mapping of names to text", line)
        values = {key.value: value.value for key, value in pairs}
        if len(values) < len(pairs):
            raise MalformedError("an entry says something twice", line)
        yield line, values
