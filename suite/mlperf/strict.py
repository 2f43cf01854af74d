"""Our own checks of a log, for the breaches that MLCommons' rule files let through. Each has an id of its own."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from suite.errors import shown
from suite.mlperf import policy
from suite.mlperf.engine import Outcome
from suite.mlperf.lines import Log, LogLine
from suite.mlperf.policy import Departure
from suite.record.parsing import value_at
from suite.record.summary import format_count
from suite.rules.finding import MAX_FINDINGS, Finding

RULES = {
    "mlperf-strict/hyperparameter": "A hyperparameter that the policy fixes has its value.",
    "mlperf-strict/schedule": "The evaluations are where the policy's schedule has them.",
    "mlperf-strict/cache-clear": "The cache is cleared, and before the run starts.",
    "mlperf-strict/status": "A run stops with status success or aborted; aborted if it missed the target.",
    "mlperf-strict/timed-run": "A run starts once and stops once: ranks that each log it do so within a second.",
    "mlperf-strict/clock": "Within one writer time does not run backwards.",
    "mlperf-strict/outside-run": "An evaluation that reaches the target lies between run_start and run_stop.",
    "mlperf-strict/stop": "A run stops at the first evaluation that reaches the target.",
    "mlperf-strict/copy": "No two runs of a submitter are copies of one another, on whatever systems.",
    "mlperf-strict/organisation": "The organisation in the log is the submitter.",
    "mlperf-strict/division": "The logs of a result and the description of its system name one division.",
    "mlperf-strict/excused": "Only a run that missed the target may be dropped, not one that breaks a rule.",
}

OFFLINE = ("minigo", "stable_diffusion")  # their checkpoints are evaluated after the run, by another program
_LATER = (*OFFLINE, "bert")  # whose evaluations may come after the run, and be logged with their checkpoints' times
_EVALUATION = frozenset(("eval_start", "eval_accuracy", "eval_stop"))
_EVENTS = _EVALUATION | {f"{interval}_{end}" for interval in ("run", "block", "epoch") for end in ("start", "stop")}
_EVENTS |= {"init_stop"}
_BEFORE = ("cache_clear", "init_start")  # what each rank does before the run, at its own time
_FIGURES = "tracked_stats"  # speeds and the like, which may be written at any time
_MOST_EVENTS = 5000  # events of a log that are compared with other logs', at most
_JITTER = 1.0  # seconds by which the ranks of one writer may differ, except in the events that a run logs once
_ROUNDING = 0.02  # seconds by which two threads of a rank, or two roundings, may differ
_RANK = re.compile(r"(?<!\S)\[?(?:rank ?)?(\d{1,6})[\]:]+(?!\S)")  # in the prefix of a line


@dataclass(frozen=True)
class Subject:
    """A log and what is known of it."""

    log: Log
    lines: list[LogLine]
    passing: list[LogLine]
    missed: bool
    benchmark: str | None
    closed: bool
    ruleset: str


def findings(log: Log, outcome: Outcome, ruleset: str, first: dict[str, str], label: str) -> list[Finding]:
    """The findings of our checks on `log`, whatever it holds; `first` has the first values of its submission_ keys."""
    subject = Subject(
        log,
        [line for line in log.lines if isinstance(line.value, dict) and line.value.keys() >= {"value", "metadata"}],
        outcome.passing,
        bool(outcome.missed),
        first.get("submission_benchmark"),
        first.get("submission_division", "closed").lower() == "closed",
        ruleset,
    )
    return [
        Finding(label, log.number(line.lineno), shown(expected), shown(found), mend, rule=f"mlperf-strict/{rule}")
        for rule, check, mend in _CHECKS
        for line, expected, found in islice(check(subject), MAX_FINDINGS)
    ]


def _hyperparameter(of: Subject) -> Iterator[Departure]:
    known = policy.policy(of.benchmark, of.ruleset)
    if known and of.closed:
        yield from policy.hyperparameters(known, of.lines)


def _schedule(of: Subject) -> Iterator[Departure]:
    known = policy.policy(of.benchmark, of.ruleset)
    if known and of.closed:
        yield from policy.schedule(known, of.lines)


def _cache_clear(of: Subject) -> Iterator[Departure]:
    """Check cache_clear. A line without a value says that the cache was cleared: null is in order, false is not."""
    start = next((line for line in of.lines if line.key == "run_start"), None)
    for line in of.lines:
        if line.key != "cache_clear":
            continue
        value = line.value["value"]
        if value is not None and str(value).lower() not in ("true", "1"):
            yield line, "cache_clear true", shown(value)
        elif start and not line.timestamp <= start.timestamp + _JITTER * of.log.second:
            yield line, f"cache_clear before run_start in line {of.log.number(start.lineno)}", "it comes after"


def _status(of: Subject) -> Iterator[Departure]:
    for line in of.lines:
        if line.key == "run_stop":
            status = value_at(line.value, "metadata", "status")
            if status not in ("success", "aborted"):
                yield line, "status success or aborted", shown(status)
            elif status == "aborted" and of.passing:
                yield line, "status success, for the target was reached", status
            elif status == "success" and of.missed and of.benchmark not in OFFLINE:
                yield line, "status aborted, for the target was missed", status


def _clock(of: Subject) -> Iterator[Departure]:
    """Find lines that are earlier than the line before them of the same writer: a source file in one rank.

    Ranks that the log does not tell apart count as one writer and may jitter, except in events, which a run logs once.
    Events must also be in order across all writers, up to the jitter. Evaluations that may be made later have an order
    of their own, with the run_stop that follows from them.
    """
    if of.benchmark in OFFLINE:
        return
    prefixes, second = of.log.prefixes(), of.log.second
    last: dict[Any, LogLine] = {}
    for line in _in_order(of):
        rank = _RANK.search(prefixes[line.lineno])
        writer = (rank and int(rank[1]), _file(line))
        late = of.benchmark in _LATER and (line.key in _EVALUATION or line.key == "run_stop")
        allowed: dict[Any, float] = {(writer, late): _JITTER}
        if line.key in _EVENTS:
            allowed |= {("once", writer, late): _ROUNDING, ("events", late): _JITTER}
        before = [last[of_one] for of_one, most in allowed.items() if _behind(line, last.get(of_one), most * second)]
        if before:
            number = of.log.number(before[0].lineno)
            expected = f"no earlier than {before[0].timestamp:.0f} of {before[0].key} in line {number}"
            yield line, expected, f"{line.timestamp:.0f}"
        last |= dict.fromkeys(allowed, line)


def _in_order(of: Subject) -> Iterator[LogLine]:
    """The lines up to the last run_stop whose order is checked; of what each rank does before the run, the earliest.

    If all settings of a source file are timed after the run, a program wrote them from the run's output, and only the
    file's events are checked, which have the times at which they happened.
    """
    stop = next((line for line in reversed(of.lines) if line.key == "run_stop"), None)
    earliest = [min(lines, key=_time) for key in _BEFORE if (lines := [line for line in of.lines if line.key == key])]
    settings = [line for line in of.lines if line.key not in (*_EVENTS, *_BEFORE, _FIGURES)]
    during = {_file(line) for line in settings if stop is None or not line.timestamp >= stop.timestamp}
    told = [line for line in settings if _file(line) in during]
    chosen = {id(line) for line in (*earliest, *told)}
    for line in of.lines:
        if line.key in _EVENTS or id(line) in chosen:
            yield line
        if line is stop:
            return


def _behind(line: LogLine, before: LogLine | None, most: float) -> bool:
    """Whether `line` is more than `most` earlier than the line before, or one of the two has no time."""
    return before is not None and not before.timestamp - line.timestamp <= most


def _time(line: LogLine) -> float:
    return line.timestamp


def _file(line: LogLine) -> str | None:
    metadata = line.value["metadata"]
    return shown(metadata.get("file")) if isinstance(metadata, dict) else None


def _timed_run(of: Subject) -> Iterator[Departure]:
    """Of several run_start or run_stop the official summarizer picks one each, not always the true ends of the run."""
    for key in ("run_start", "run_stop"):
        lines = [line for line in of.log.lines if line.key == key]
        for line in lines[1:]:
            if not abs(line.timestamp - lines[0].timestamp) <= _JITTER * of.log.second:
                where = f"one {key}, {lines[0].timestamp:.0f} of line {of.log.number(lines[0].lineno)}"
                yield line, where, f"{line.timestamp:.0f}"


def _outside_run(of: Subject) -> Iterator[Departure]:
    timed = of.log.timed()
    if not (timed and of.passing) or of.benchmark in OFFLINE:
        return
    start, stop = timed
    rounding = _ROUNDING * of.log.second
    if not any(
        start.lineno < line.lineno < stop.lineno
        and start.timestamp - rounding <= line.timestamp <= stop.timestamp + rounding
        for line in of.passing
    ):
        where = f"lines {of.log.number(start.lineno)} and {of.log.number(stop.lineno)}"
        yield of.passing[0], f"a passing evaluation between run_start and run_stop, {where}", "none of them is"


def _stop(of: Subject) -> Iterator[Departure]:
    """Find a first evaluation that reaches the target and is followed by others.

    Each rank may log the same evaluation, so only those at another place count. The rule files know no target for the
    open division.
    """
    known = policy.policy(of.benchmark, of.ruleset)
    target = known.target if known else None
    passing = [line for line in of.passing if target is None or _number(line) >= target]
    if not (of.closed and passing) or of.benchmark in OFFLINE:
        return
    first, place = passing[0], policy.place(passing[0])
    later = {
        policy.place(line)
        for line in of.lines
        if line.key == first.key and line.lineno > first.lineno and policy.place(line) != place
    }
    if later:
        more = format_count(len(later), "more evaluation")
        yield first, "run_stop after the first evaluation that reaches the target", f"{more} after this one"


def _number(line: LogLine) -> float:
    value = policy.number(line.value["value"])
    return math.nan if value is None else value


_CHECKS: tuple[tuple[str, Callable[[Subject], Iterator[Departure]], str], ...] = (
    ("hyperparameter", _hyperparameter, "train with the value that the policy fixes"),
    ("schedule", _schedule, "evaluate where the policy says, and log each evaluation"),
    ("cache-clear", _cache_clear, "clear the cache before the run and log it true"),
    ("status", _status, "log the status as the run ended"),
    ("timed-run", _timed_run, "log run_start and run_stop once, from the rank that times the run"),
    ("clock", _clock, "submit the log with the times as they were taken"),
    ("outside-run", _outside_run, "submit runs that reach the target while they are timed"),
    ("stop", _stop, "stop the run, and its clock, when the target is reached"),
)


@dataclass(frozen=True)
class Traits:
    """What is compared between the logs of a package.

    `events` are the key and the time since run_start of what happened in the run, `qualities` the evaluations' values;
    `org_line` and `division_line` are those of submission_org and submission_division; `only_missed` says that the log
    fails only by missing the target.
    """

    events: frozenset[tuple[str, float]] = frozenset()
    qualities: tuple[str, ...] = ()
    org_line: int | None = None
    division_line: int | None = None
    only_missed: bool = False


def traits(log: Log, outcome: Outcome) -> Traits:
    """The traits of a log."""
    start = next((line.timestamp for line in log.lines if line.key == "run_start"), math.nan)
    failures = [finding for finding in outcome.findings if finding.severity == "fail"]
    events = [line for line in log.lines if line.key in _EVENTS][:_MOST_EVENTS]
    return Traits(
        events=frozenset((line.key, round(line.timestamp - start, 3)) for line in events if line.timestamp >= start),
        qualities=tuple(
            shown(line.value["value"])
            for line in events
            if line.key == "eval_accuracy" and isinstance(line.value, dict) and "value" in line.value
        ),
        org_line=_first(log, "submission_org"),
        division_line=_first(log, "submission_division"),
        only_missed=bool(failures) and all(finding in outcome.missed for finding in failures),
    )


def _first(log: Log, key: str) -> int | None:
    return next((log.number(line.lineno) for line in log.lines if line.key == key), None)
