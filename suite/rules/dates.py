"""Checks of when runs were made: within the suite's lifetime, and one after another."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from operator import itemgetter

from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import CONFIG, RESTART
from suite.record.evidence import LOG
from suite.record.mllog import EARLIEST_MS, Line
from suite.record.parsing import whole
from suite.rules.finding import Finding, Severity
from suite.rules.reading import PACKAGE, RESULT, RUN, Evidence
from suite.rules.revision import committed_ms, revision_of
from suite.rules.runs import path_of, result_of

DAY_MS = 24 * 3_600_000  # by which a machine's clock, or a committer's, may be wrong
OVERLAP_MS = 1000  # of two runs: older evidence does not make up for a clock that was set back a little between them

_SET = "set the machine's clock and run it again"


@RUN.rule("timing.6")
def of_its_time(run: Evidence) -> Iterator[Finding]:
    """A run is made after the suite and the revision that it is of, and before its review."""
    ends = _ends(run)
    if ends is None:
        return
    first, last = ends
    revision = revision_of(run)
    bounds = [(EARLIEST_MS, "the suite's beginning")]
    if revision and (committed := committed_ms(revision)) is not None:
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
            mend = "submit runs of one command: it makes them one after another"
            yield Finding(path_of(run, LOG), first.number, expected, _date(first.time_ms), mend)


@PACKAGE.rule("timing.9")
def one_at_a_time(runs: Sequence[Evidence]) -> Iterator[Finding]:
    """No two results had one machine at one time. The runs of one result have another rule."""
    stays, named = defaultdict(list), set()
    for run in runs:
        if ends := _ends(run):
            for boot, offset in _boots(run).items():
                stays[boot].append((run, *ends, offset))
    for told in stays.values():
        by_boot = all(offset is not None for *_, offset in told)  # which nobody sets, as they may a clock between runs
        placed = [(run, first, ended, offset if by_boot and offset else 0) for run, first, ended, offset in told]
        placed.sort(key=lambda each: each[1].time_ms - each[3])
        for at, (run, first, _, offset) in enumerate(placed):
            there = (  # by the clock of the later run
                (run.package is not None and run.package == before.package, before, ended.time_ms - other + offset)
                for before, _, ended, other in placed[:at]
                if result_of(run) != result_of(before)
            )
            overlapping = [each for each in there if first.time_ms < each[2] - OVERLAP_MS]
            if not overlapping:
                continue
            together, before, left_ms = max(overlapping, key=itemgetter(0))
            if (run.label, before.label) in named:  # in another boot
                continue
            named.add((run.label, before.label))
            expected = f"a machine that {path_of(before, LOG)} has left, at {_date(left_ms)}"
            severity: Severity = "fail" if together else "note"
            mend = "run one after the other on a machine"
            yield Finding(path_of(run, LOG), first.number, expected, _date(first.time_ms), mend, severity)


def _boots(run: Evidence) -> dict[str, int | None]:
    """The boots of machines that a run was made in, as far as its log names them.

    Each with the milliseconds by which the log's time is ahead of that since the boot, None where it does not say.
    """
    lines = [*run.lines_of.get(CONFIG, []), *run.lines_of.get(RESTART, [])]
    clocks = [clock for line in lines if isinstance(clock := line.metadata.get("clock"), dict)]
    return {boot: whole(clock.get("offset_ms")) for clock in clocks if isinstance(boot := clock.get("boot"), str)}


def _ends(run: Evidence, first_stop: bool = False) -> tuple[Line, Line] | None:
    """The earliest and the latest line; of a run that went on after a stop, of those before that if `first_stop`.

    An older suite left a run that Ctrl-C had ended, and made those after it; this one may go on with it still.
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
