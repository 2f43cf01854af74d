"""Checks of when runs were made: within the suite's lifetime, and one after another."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import CONFIG, RESTART
from suite.record import git
from suite.record.evidence import LOG
from suite.record.mllog import EARLIEST_MS, Line
from suite.record.parsing import whole
from suite.rules.finding import Finding, Severity
from suite.rules.reading import PACKAGE, RESULT, RUN, Evidence
from suite.rules.revision import revision_of
from suite.rules.runs import of_one_owner, path_of, result_of

DAY_MS = 24 * 3_600_000  # by how much a machine's or a committer's clock may be wrong
OVERLAP_MS = 1000  # tolerated between two runs: in older evidence the clock may have been set back a little

_IN_TURN = "submit runs of one command: it makes them one after another"
_SET = "set the machine's clock and run it again"


@RUN.rule("timing.6")
def of_its_time(run: Evidence) -> Iterator[Finding]:
    """A run is made after the suite's beginning and the commit of its revision, and before its review."""
    ends = _ends(run)
    if ends is None:
        return
    first, last = ends
    revision = revision_of(run)
    bounds = [(EARLIEST_MS, "the suite's beginning")]
    if revision and (committed := git.committed_ms(revision)) is not None:
        bounds.append((committed, f"the commit of revision {revision}"))
    bound, what = max(bounds)
    if first.time_ms < bound - DAY_MS:
        yield Finding(LOG, first.number, f"a time not before {_date(bound)}, {what}", _date(first.time_ms), _SET)
    now = time.time_ns() // 1_000_000
    if last.time_ms > now + DAY_MS:
        yield Finding(LOG, last.number, f"a time not after {_date(now)}, that of the review", _date(last.time_ms), _SET)


@RESULT.rule("timing.6")
def one_after_another(runs: Sequence[Evidence]) -> Iterator[Finding]:
    """The runs of a result follow each other in the order of their index: a resumed command goes on where it was."""
    placed = [(whole(run.configured("run_index")) or 0, run, ends) for run in runs if (ends := _ends(run, True))]
    placed.sort(key=lambda each: each[0])
    for (_, before, (begun, ended)), (_, run, (first, _)) in pairwise(placed):
        if first.time_ms <= begun.time_ms or first.time_ms < ended.time_ms - OVERLAP_MS:
            expected = f"a beginning after {path_of(before, LOG)} ended at {_date(ended.time_ms)}"
            yield Finding(path_of(run, LOG), first.number, expected, _date(first.time_ms), _IN_TURN)
    yield from _out_of_turn([run for _, run, _ in placed])


def _out_of_turn(runs: Sequence[Evidence]) -> Iterator[Finding]:
    """Where a run was begun before the one ahead of it in the same boot, by the time since that, which nobody sets."""
    begun: dict[str, tuple[Evidence, int]] = {}  # the last run in each boot, and its beginning
    for run in runs:
        line = run.line(CONFIG)
        clock = line.metadata.get("clock") if line else None
        if line is None or not isinstance(clock, dict):
            continue
        boot, offset_ms = clock.get("boot"), whole(clock.get("offset_ms"))
        if not isinstance(boot, str) or offset_ms is None:
            continue
        begun_ms = line.time_ms - offset_ms
        before, before_ms = begun.get(boot, (run, begun_ms))
        if begun_ms < before_ms:
            expected = f"a beginning after that of {path_of(before, LOG)}, {before_ms / 1000:.3f} s since the boot"
            found = f"{begun_ms / 1000:.3f} s since the same boot: the clock was set back"
            yield Finding(path_of(run, LOG), line.number, expected, found, _IN_TURN)
        begun[boot] = run, begun_ms


@PACKAGE.rule("timing.9")
def one_at_a_time(runs: Sequence[Evidence]) -> Iterator[Finding]:
    """No two runs used one machine at the same time. Without times since boot, timing.6 covers runs of one result."""
    stays, named = defaultdict(list), set()
    for run in runs:
        for stay in _stays(run):
            stays[stay.boot].append(stay)
    for told in stays.values():
        for before, stay, left_ms in _overlapping(told):
            if (stay.run.label, before.run.label) in named:  # reported for another boot
                continue
            named.add((stay.run.label, before.run.label))
            expected = f"a machine that {path_of(before.run, LOG)} has left, at {_date(left_ms)}"
            mend, severity = "run one after the other on a machine", _severity(before, stay)
            yield Finding(path_of(stay.run, LOG), stay.line, expected, _date(stay.begun_ms), mend, severity)


class _Stay(NamedTuple):
    """The stay of a run in one `boot` of a machine, pauses between its parts included. It begins at log line `line`.

    `offset` is how many milliseconds the log's clock is ahead of the time since boot, None where the log does not say.
    """

    run: Evidence
    boot: str
    offset: int | None
    begun_ms: int
    ended_ms: int
    line: int

    def ahead_ms(self, by_boot: bool) -> int:
        """By how much the stay's times are ahead of those that it is held to others by."""
        return (self.offset or 0) if by_boot else 0


def _overlapping(told: Sequence[_Stay]) -> Iterator[tuple[_Stay, _Stay, int]]:
    """Of the stays in one boot, those that began before another had ended: the other, the stay, and when that ended.

    Nobody sets the time since boot, unlike a clock. Clocks judge what does not tell it, and only between results.
    """
    for by_boot in (True, False):
        placed = [stay for stay in told if not by_boot or stay.offset is not None]
        placed.sort(key=lambda stay: stay.begun_ms - stay.ahead_ms(by_boot))
        for at, stay in enumerate(placed):
            left = [  # by the clock of the later run
                (each, each.ended_ms - each.ahead_ms(by_boot) + stay.ahead_ms(by_boot))
                for each in placed[:at]
                if by_boot or (None in (each.offset, stay.offset) and result_of(each.run) != result_of(stay.run))
            ]
            overlapping = [pair for pair in left if stay.begun_ms < pair[1] - OVERLAP_MS]
            if overlapping:
                before, left_ms = max(overlapping, key=lambda pair: _severity(pair[0], stay) == "fail")
                yield before, stay, left_ms


def _stays(run: Evidence) -> Iterator[_Stay]:
    """The stays of a run, one for each boot of a machine that its log names."""
    lines = [line for line in run.lines if not line.problem]
    clocks = [
        (at, clock)
        for at, line in enumerate(lines)
        if line.key in (CONFIG, RESTART) and isinstance(clock := line.metadata.get("clock"), dict)
    ]
    begins = [at for at, _ in clocks]
    if clocks and lines[begins[0]].key == CONFIG:  # the lines before it are of the same boot
        begins[0] = 0
    begins.append(len(lines))
    stays: dict[str, _Stay] = {}
    for (begin, end), (_, clock) in zip(pairwise(begins), clocks, strict=True):
        if isinstance(boot := clock.get("boot"), str):
            times = [line.time_ms for line in lines[begin:end]]
            made = _Stay(run, boot, whole(clock.get("offset_ms")), min(times), max(times), lines[begin].number)
            before = stays.setdefault(boot, made)
            later = made.ahead_ms(True) - before.ahead_ms(True)  # by how much the clock was set meanwhile
            begun_ms, ended_ms = (
                min(before.begun_ms + later, made.begun_ms),
                max(before.ended_ms + later, made.ended_ms),
            )
            stays[boot] = made._replace(begun_ms=begun_ms, ended_ms=ended_ms, line=before.line)
    yield from stays.values()


def _severity(one: _Stay, other: _Stay) -> Severity:
    return "fail" if of_one_owner(one.run, other.run) else "note"


def _ends(run: Evidence, first_stop: bool = False) -> tuple[Line, Line] | None:
    """The earliest and the latest line. With `first_stop`, a restart after a run_stop and all lines below are left out.

    An older suite left a run that Ctrl-C had ended and made the runs after it; this suite may still resume that run.
    """
    lines = [line for line in run.lines if not line.problem]
    if first_stop:
        stop = next((at for at, line in enumerate(lines) if line.key == keys.RUN_STOP), len(lines))
        lines = lines[: next((at for at in range(stop, len(lines)) if lines[at].key == RESTART), len(lines))]
    if not lines:
        return None
    return min(lines, key=lambda line: line.time_ms), max(lines, key=lambda line: line.time_ms)


def _date(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):  # beyond the year 9999
        return f"{time_ms} ms since 1970"
