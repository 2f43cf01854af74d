"""Check a log against a compiled ruleset as the official checker does: file by file, line by line, in the log's order.

Where that checker ends in a traceback, this one makes a finding and goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

from suite.errors import shown
from suite.mlperf import deciding
from suite.mlperf.compiling import KeyRule, RuleFile, Ruleset, Test
from suite.mlperf.lines import Log, LogLine
from suite.rules.finding import MAX_FINDINGS, Finding, Severity

_MEND_LINE = "submit the log as mlperf_logging.mllog wrote it"


@dataclass(frozen=True)
class Outcome:
    """The findings about a log, at most MAX_FINDINGS, and where the target was reached.

    `passing` are the lines that meet a condition that must hold once (`KeyRule.some`); `missed` are the findings that
    none did.
    """

    findings: list[Finding]
    passing: list[LogLine]
    missed: list[Finding]


def check(ruleset: Ruleset, log: Log, path: str) -> Outcome:
    """Check `log`, whose file is `path` in what is reviewed, against the ruleset."""
    return _Check(ruleset, log, path).run()


def of_lines(log: Log, ruleset: str, path: str) -> list[Finding]:
    """The findings about malformed lines, and about a log without any well-formed one."""
    rule, expected = f"{ruleset}/line", "a well-formed log line"
    made = [
        Finding(path, log.number(problem.lineno), expected, shown(problem.what), _MEND_LINE, rule=rule)
        for problem in log.problems[:MAX_FINDINGS]
    ]
    if not log.count:
        expected = f"lines that begin with {log.token.strip()}"
        made.append(Finding(path, None, expected, "none", "submit the log of the run", rule=rule))
    return made


class _Check:
    """The check of one log. Findings in `of_keys` are dropped once a later rule file has rules for their key."""

    def __init__(self, ruleset: Ruleset, log: Log, path: str) -> None:
        self.ruleset, self.log, self.path = ruleset, log, path
        self.of_keys: dict[str, list[Finding]] = {}
        self.lasting = of_lines(log, ruleset.name, path)
        self.queue = [ruleset.entrance]
        self.done: set[str] = set()
        self.passing: list[LogLine] = []
        self.missed: list[Finding] = []

    def run(self) -> Outcome:
        lines = list(self.log.lines)
        while self.queue and self.log.count and not self.log.cut:
            name = self.queue.pop(0)
            if name not in self.done:
                self.done.add(name)
                self._file(self.ruleset.files[name], lines)
        findings = [*chain.from_iterable(self.of_keys.values()), *self.lasting][:MAX_FINDINGS]
        return Outcome(findings, self.passing, self.missed)

    def _file(self, file: RuleFile, lines: list[LogLine]) -> None:
        s: dict[str, Any] = {}
        label = file.name.partition("/")[2].removesuffix(".yaml")
        if file.begin:
            try:
                file.begin(s, lines)
            except Exception as error:
                self._unusable(f"{label}/BEGIN", 0, error, "a line of the log")
        for key in file.keys:
            self.of_keys.pop(key, None)
        values: dict[str, list[Any]] = {key: [] for key in file.keys}
        last: dict[str, LogLine] = {}
        met: set[str] = set()  # keys whose `some` condition held
        tried: dict[str, list[LogLine]] = {}  # the lines of these keys
        rules = file.keys
        for line in lines:
            key = line.key
            rule = rules.get(key)
            if rule is None:
                continue
            try:
                values[key].append(line.value["value"])
            except (KeyError, TypeError, IndexError):  # of 0.6, where a line's value may be anything
                continue
            v, first = line.value, key not in last
            last[key] = line
            if first or "submission_" not in key:
                for test in rule.checks:
                    try:  # _holds inlined, for speed
                        if test.holds(s, line, v):
                            continue
                    except Exception:
                        pass
                    self._broken(test, s, line, label)
                if rule.post:
                    self._post(rule.post, s, line, v, label)
            if first:
                for test in rule.first:
                    if not _holds(test, s, line, v):
                        self._broken(test, s, line, label)
            if rule.some:
                tried.setdefault(key, []).append(line)
                try:
                    if rule.some.holds(s, line, v):
                        self.passing.append(line)
                        met.add(key)
                except Exception as error:
                    self._unusable(f"{label}/{key}", line.lineno, error, _value(line))
        for key, rule in rules.items():
            if rule.some and key in last and key not in met:
                self._missed(rule.some, s, tried[key], label)
            self._occurrences(label, key, rule, values, last.get(key))
        for test in file.end:
            self._end(test, s, label)

    def _broken(self, test: Test, s: dict[str, Any], line: LogLine, label: str) -> None:
        key = line.key
        expected, found = deciding.decided(test, s, line, line.value, self.log.second)
        mend = f"log {key} as the rules of the round ask"
        self._add(key, f"{label}/{key}", line.lineno, f"{key} {expected}", f"{key} {found}", mend)

    def _missed(self, test: Test, s: dict[str, Any], lines: list[LogLine], label: str) -> None:
        best = deciding.best(test, s, lines)
        key = best.key
        expected = f"{key} {deciding.asked(test)}, at least once"
        _, found = deciding.decided(test, s, best, best.value, self.log.second)
        self._add(
            None, f"{label}/{key}", best.lineno, expected, f"the best of {len(lines)}: {found}", "reach the target"
        )
        self.missed.append(self.lasting[-1])

    def _post(self, post: Callable[..., Any], s: dict[str, Any], line: LogLine, v: Any, label: str) -> None:
        def enqueue(name: str) -> None:
            if name in self.ruleset.files:
                self.queue.append(name)
            else:
                expected = f"{line.key}: one that the round has rules for"
                mend = "name a benchmark, division or optimizer of the round"
                self._add(None, f"{label}/{line.key}", line.lineno, expected, _value(line), mend)

        try:
            post(s, line, v, enqueue)
        except Exception:
            expected = f"{line.key}: a value that the rules can use"
            self._add(line.key, f"{label}/{line.key}", line.lineno, expected, _value(line), "log a value of its type")

    def _unusable(self, rule: str, lineno: int, error: Exception, found: str) -> None:
        """Add a finding where the official checker ends in a traceback."""
        expected, mend = "a value that the rules can use", "log a value of its type"
        self._add(None, rule, lineno, expected, f"{found} ({type(error).__name__})", mend)

    def _occurrences(
        self, label: str, key: str, rule: KeyRule, values: dict[str, list[Any]], last: LogLine | None
    ) -> None:
        required, count = rule.required or "OPTIONAL", len(values[key])
        severity: Severity = "fail"
        if required == "EXACTLY_ONE":
            if count == 1:
                return
            found = f"{count} of them" if count else "none"
            if count and values[key].count(values[key][0]) == count:
                severity = "note"
            elif count:
                found += ": " + ", ".join(sorted({shown(value) for value in values[key][:100]}))
            expected, mend = f"exactly one {key}", f"log {key} once"
            self._add(key, f"{label}/{key}", last.lineno if last else 0, expected, found, mend, severity)
        elif required.startswith("AT_LEAST_ONE_OR("):
            others = [name.strip() for name in required[len("AT_LEAST_ONE_OR(") : -1].split(",")]
            if not count and not any(values[other] for other in others):
                expected = f"at least one {' or '.join([key, *others])}"
                self._add(None, f"{label}/{key}", 0, expected, "none", f"log {key}")
        elif required.startswith("AT_LEAST"):
            needed = 1 if required == "AT_LEAST_ONE" else int(required[len("AT_LEAST(") : -1])
            if count < needed:
                self._add(key, f"{label}/{key}", 0, f"at least {needed} {key}", str(count or "none"), f"log {key}")

    def _end(self, test: Test, s: dict[str, Any], label: str) -> None:
        if not _holds(test, s, None, None):
            expected, found = deciding.decided(test, s, None, None, self.log.second)
            mend = "log what the rules of the round ask"
            self._add(None, f"{label}/END", 0, expected.removeprefix("with "), found, mend)

    def _add(
        self, key: str | None, rule: str, lineno: int, expected: str, found: str, mend: str, severity: Severity = "fail"
    ) -> None:
        where = self.lasting if key is None else self.of_keys.setdefault(key, [])
        if len(where) < MAX_FINDINGS:
            line = self.log.number(lineno)
            rule = f"{self.ruleset.name}/{rule}"
            where.append(Finding(self.path, line, shown(expected), shown(found), mend, severity, rule=rule))


def _holds(test: Test, s: dict[str, Any], line: LogLine | None, v: Any) -> bool:
    """Whether a condition holds; as in the official checker, one that cannot be evaluated does not."""
    try:
        return bool(test.holds(s, line, v))
    except Exception:
        return False


def _value(line: LogLine) -> str:
    return f"{line.key} {shown(line.value['value'])}"
