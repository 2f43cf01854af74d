"""Review one log: read it safely, check it against the ruleset, and keep what the review of its package needs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from suite.errors import shown, shown_path
from suite.mlperf import engine, lines, strict
from suite.mlperf.compiling import compiled
from suite.mlperf.engine import Outcome
from suite.mlperf.lines import TOKEN_05, Log
from suite.mlperf.rulefiles import WITHOUT_RULES
from suite.rules.finding import MAX_FINDINGS, Finding, Verdict, verdict_of
from suite.store.disk import UnsafeFile, read_safely, reason

MAX_BYTES = 128 << 20
_KEYS = frozenset({"submission_benchmark", "submission_division", "submission_org", "run_start", "run_stop"})


@dataclass(frozen=True)
class LogReview:
    """The review of one log. `path` is relative to what is reviewed; `official` is the verdict without strict checks.

    `minutes` is the time from run_start to run_stop. Like `benchmark`, `division` and `org` it is None if the log does
    not say. `traits` are what the strict checks compare between the logs of a package.
    """

    path: str
    verdict: Verdict
    findings: list[Finding]
    official: Verdict
    benchmark: str | None = None
    division: str | None = None
    org: str | None = None
    minutes: float | None = None
    traits: strict.Traits = field(default_factory=strict.Traits)


def review_log(path: Path, label: str, ruleset: str, strict_too: bool) -> LogReview:
    """Review the log at `path`, which is `label` in what is reviewed. Nothing that it holds makes this raise."""
    label = shown_path(label)
    try:
        return _reviewed(read_safely(path, MAX_BYTES), label, ruleset, strict_too)
    except (UnsafeFile, OSError) as error:
        found = reason(error)
    except RecursionError:
        found = "holds values that are nested too deeply"
    expected = f"a plain file of at most {MAX_BYTES >> 20} MiB"
    unread = Finding(label, None, expected, shown(found), "submit the log itself", "error", rule=f"{ruleset}/file")
    return LogReview(label, "error", [unread], "error")


def _reviewed(content: bytes, label: str, ruleset: str, strict_too: bool) -> LogReview:
    if ruleset == WITHOUT_RULES:
        log = lines.read(content, ruleset, _KEYS)
        outcome = Outcome(engine.of_lines(log, ruleset, label), [], [])
    else:
        rules = compiled(ruleset)
        log = lines.read(content, ruleset, lines.ALL if strict_too else rules.keys | _KEYS)
        outcome = engine.check(rules, log, label)
    official = verdict_of(outcome.findings)
    values = _first_values(log)
    findings, traits = outcome.findings, strict.Traits()
    if strict_too:
        findings = [*findings, *strict.findings(log, outcome, ruleset, values, label)]
        traits = strict.traits(log, outcome)
    return LogReview(
        label,
        verdict_of(findings),
        findings[: 2 * MAX_FINDINGS],
        official,
        values.get("submission_benchmark"),
        values.get("submission_division"),
        values.get("submission_org"),
        _minutes(log),
        traits,
    )


def _first_values(log: Log) -> dict[str, str]:
    """The first text value of each submission_ key; v0.5 names the benchmark in each line instead."""
    found: dict[str, str] = {}
    for line in log.lines:
        if line.key.startswith("submission_") and line.key not in found:
            value = line.value.get("value") if isinstance(line.value, dict) else None
            if isinstance(value, str):
                found[line.key] = shown(value)
    if log.token == TOKEN_05 and log.lines:
        found["submission_benchmark"] = shown(log.lines[0].value["benchmark"])
    return found


def _minutes(log: Log) -> float | None:
    """The time from run_start to run_stop, None if one is missing or it is not finite."""
    timed = log.timed()
    if timed is None:
        return None
    start, stop = timed
    minutes = (stop.timestamp - start.timestamp) / 60 / log.second
    return minutes if math.isfinite(minutes) else None
