"""Checks of the chapters "Log" and "Timing": the lines, their chain, their order and their clock."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from itertools import pairwise

from mlperf_logging.mllog import constants as keys

from suite.config import logkeys
from suite.config.logkeys import INIT_LIMITS_MIN, RESTART, TRACKED
from suite.record.evidence import LOG
from suite.record.mllog import Line, samples_of, since_restart
from suite.record.parsing import number
from suite.rules.chain import broken_lines
from suite.rules.finding import LOG_AS_WRITTEN, Finding
from suite.rules.hyperparameters import batch_size
from suite.rules.reading import RUN, Evidence
from suite.rules.timeline import IN_RUN, ONCE, STEPS, TAIL

MLPERF = {value for name, value in vars(keys).items() if name.isupper() and isinstance(value, str)}
OURS = {
    *(value for name, value in vars(logkeys).items() if name.isupper() and isinstance(value, str)),
    *logkeys.HEAD,
    *STEPS,
}
LEAST_MS = 0.001  # between two readings of the clock, with a call between them
_SLACK, _SLACK_MS = 0.01, 10  # of a time that a line gives: it is measured a moment before the line is written

_COUNTED = (*IN_RUN, TRACKED, keys.RUN_STOP, RESTART)
_TRAINED = (TRACKED, keys.BLOCK_STOP)  # where samples may be more than at the line before


@RUN.rule("log.1")
def well_formed(run: Evidence) -> Iterator[Finding]:
    """Each line is one MLLOG record."""
    for line in run.lines:
        if line.problem:
            yield Finding(LOG, line.number, "a well-formed MLLOG line", line.problem, LOG_AS_WRITTEN)
    if LOG in run.contents and not run.lines:
        yield Finding(LOG, None, "MLLOG lines", "an empty file", LOG_AS_WRITTEN)


@RUN.rule("log.2")
def chained(run: Evidence) -> Iterator[Finding]:
    """Each line carries the hash of the line before it, and the manifest that of the last."""
    for at in broken_lines(run):
        yield Finding(LOG, at, "the line that the hash chain holds", "another line", LOG_AS_WRITTEN)


@RUN.rule("log.3")
def ordered(run: Evidence) -> Iterator[Finding]:
    """Events come in the order of a run."""
    yield from run.timeline.findings


@RUN.rule("log.4")
def complete(run: Evidence) -> Iterator[Finding]:
    """What describes a run is logged exactly once; its energy and cost exactly once since the last restart."""
    if not run.readable:
        return
    since = since_restart(run.lines)[0].number
    for key in ONCE:
        lines = [line for line in run.lines_of.get(key, []) if key not in TAIL or line.number >= since]
        if not lines:
            yield Finding(LOG, None, f"a line {key}", "none", LOG_AS_WRITTEN)
        for line in lines[1:]:
            yield Finding(LOG, line.number, f"{key} once", f"again, after line {lines[0].number}", LOG_AS_WRITTEN)


@RUN.rule("log.5")
def counted(run: Evidence) -> Iterator[Finding]:
    """Samples are counted in whole steps, grow only where a block trains, and go back only at a restart."""
    behind: int | None = 0  # None: not known
    step, most = _steps(run)
    for line in run.lines:
        if not line.problem and line.key not in _COUNTED:
            continue
        samples = samples_of(line)
        if samples is None:
            if not line.problem:
                found = line.metadata.get(keys.SAMPLES_COUNT)
                yield Finding(LOG, line.number, "samples_count, a whole number", found, LOG_AS_WRITTEN)
        elif behind is None:
            pass
        elif line.key == RESTART and samples > behind:
            yield Finding(LOG, line.number, f"a restart from at most {behind} samples", samples, LOG_AS_WRITTEN)
        elif line.key in _TRAINED and not behind <= samples <= behind + most:
            expected = f"samples_count from {behind} to {behind + most}"
            yield Finding(LOG, line.number, expected, samples, LOG_AS_WRITTEN)
        elif line.key not in (*_TRAINED, RESTART) and samples != behind:
            yield Finding(LOG, line.number, f"samples_count {behind}, as at the line before", samples, LOG_AS_WRITTEN)
        elif samples % step:
            yield Finding(LOG, line.number, f"samples_count in whole steps of {step}", samples, LOG_AS_WRITTEN)
        behind = samples


def _steps(run: Evidence) -> tuple[int, int]:
    """The samples of a step, 1 where steps may differ, and the most between two lines that count samples."""
    if run.benchmark is None:
        return 1, sys.maxsize
    step = batch_size(run, run.benchmark)
    return 1 if run.in_open else step, run.benchmark.evaluation.every + step - 1


@RUN.rule("timing.1")
def clock_forward(run: Evidence) -> Iterator[Finding]:
    """The clock never runs backwards."""
    latest = 0
    for line in run.lines:
        if not line.problem:
            if line.time_ms < latest:
                yield Finding(LOG, line.number, f"time_ms of at least {latest}", line.time_ms, LOG_AS_WRITTEN)
            latest = max(latest, line.time_ms)


@RUN.rule("timing.2")
def short_initialisation(run: Evidence) -> Iterator[Finding]:
    """Initialisation, and whatever else comes before the run, keeps within its division's limit."""
    start, stop = run.line(keys.INIT_START), run.timeline.run_start
    limit = INIT_LIMITS_MIN[keys.OPEN if run.in_open else keys.CLOSED]
    if start and stop and stop.time_ms - start.time_ms > limit * 60_000:
        expected = f"at most {limit} minutes from {keys.INIT_START} to {keys.RUN_START}"
        found = f"{(stop.time_ms - start.time_ms) / 60_000:.3f} minutes"
        yield Finding(LOG, stop.number, expected, found, "build the model faster")


@RUN.rule("timing.5")
def clock_keeps_up(run: Evidence) -> Iterator[Finding]:
    """No line claims more time than the clock shows since the line that it counts from, or next to none."""
    before: Line | None = None  # the last line that counts samples
    for last, line in pairwise(run.lines):
        counts = not line.problem and line.key in _COUNTED
        if counts and line.key == RESTART:
            told, since = number(line.metadata.get("lost_ms")), last
        elif counts and line.key == TRACKED and before:
            told, since = _told_ms(before, line), before
        else:
            told, since = None, last
        passed = line.time_ms - since.time_ms
        if told is not None and not since.problem and (1 - _SLACK) * told - _SLACK_MS > passed:
            expected = f"at least {told:.0f} ms since line {since.number}"
            yield Finding(LOG, line.number, expected, f"{passed} ms", LOG_AS_WRITTEN)
        elif told and told < (1 - _SLACK) * LEAST_MS and line.key == TRACKED:
            expected = f"a throughput that leaves its samples at least {LEAST_MS:g} ms"
            yield Finding(LOG, line.number, expected, f"{told:.3g} ms", LOG_AS_WRITTEN)
        before = line if counts else None if line.problem else before
    yield from _outlasted(run)


def _outlasted(run: Evidence) -> Iterator[Finding]:
    """Where the leader's node was sampled after the log's last line; a restart may have gone on by another clock."""
    sampled = [sample.time_ms for sample in run.samples or () if sample.node == 0]
    if not sampled or run.timeline.run_stop is None or RESTART in run.lines_of:
        return
    last = run.lines[-1]
    if not last.problem and sampled[-1] > last.time_ms + _SLACK_MS:
        expected = f"no power sample after the log's last line, at {last.time_ms} ms"
        found = f"one {(sampled[-1] - last.time_ms) / 1000:.3f} s later"
        yield Finding(LOG, last.number, expected, found, LOG_AS_WRITTEN)


def _told_ms(before: Line, line: Line) -> float | None:
    """How long the samples since `before` took by the throughput of `line`; None if that is not known."""
    throughput = number(line.value.get("throughput")) if isinstance(line.value, dict) else None
    first, last = samples_of(before), samples_of(line)
    if throughput is None or first is None or last is None:
        return None
    return (last - first) * 1000 / throughput if throughput > 0 else math.inf


@RUN.rule("log.7")
def known_keys(run: Evidence) -> Iterator[Finding]:
    """Each key before run_start is the suite's or a hyperparameter; an unknown key elsewhere gets a note."""
    start, benchmark = run.line(keys.RUN_START), run.benchmark
    if benchmark is None:
        return
    configured = run.configured("benchmark", "hyperparameters")
    own = configured if run.in_open and isinstance(configured, dict) else benchmark.hyperparameters
    for line in run.lines:
        if line.problem or line.key in OURS or line.key in own:
            continue
        if start is None or line.number < start.number:
            expected = "a key of the suite or a hyperparameter, in what describes a run"
            yield Finding(LOG, line.number, expected, line.key, LOG_AS_WRITTEN)
        elif line.key not in MLPERF:
            mend = "none: no rule looks at it"
            yield Finding(LOG, line.number, "a key of the suite or of MLPerf", line.key, mend, "note")


@RUN.rule("log.6")
def cache_cleared(run: Evidence) -> Iterator[Finding]:
    """Every cache_clear line has the value true."""
    for line in run.lines_of.get(keys.CACHE_CLEAR, []):
        if line.value is not True:
            yield Finding(LOG, line.number, f"{keys.CACHE_CLEAR} true", line.value, "clear the caches before each run")
