"""Checks of restarts: what was trained again came out as before, and a trusted clock measured the time lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import CONFIG, RESTART, STATE, TRACKED
from suite.errors import shown
from suite.record.clock import BOOT
from suite.record.evidence import LOG
from suite.record.mllog import Line, samples_of
from suite.record.parsing import number, same, text
from suite.rules.finding import Finding
from suite.rules.reading import RUN, Evidence

_APART_MS = 2000  # the most by which two clocks may disagree on the time lost
_STATED = ("predictions_sha256", "state_sha256")  # in the metadata of an evaluation; older evidence lacks the state's


@RUN.rule("log.8")
def repeated(run: Evidence) -> Iterator[Finding]:
    """What is trained again comes out as it did before: a resumed run is the same run."""
    for key in (STATE, keys.EVAL_ACCURACY, TRACKED):
        first: dict[int, Line] = {}
        for line in run.lines_of.get(key, []):
            samples = samples_of(line)
            if samples is None:
                continue
            before = first.setdefault(samples, line)
            told, again = _outcome(before), _outcome(line)
            for name in told:
                if told[name] is not None and again[name] is not None and not same(told[name], again[name]):
                    expected = f"{name} {_brief(told[name])}, as in line {before.number} after as many samples"
                    mend = "none: where the machine computes the same every time, so does a run that goes on"
                    yield Finding(LOG, line.number, expected, again[name], mend, "note")


@RUN.rule("timing.7")
def clock_of_restarts(run: Evidence) -> Iterator[Finding]:
    """The time that a run was stopped was measured by a clock that nobody sets, and the other clocks agree."""
    mend = "none: judge by the log's times whether the run lay still for so long"
    begun = run.line(CONFIG)
    before = _clock(begun) if begun else {}
    for line in run.lines_of.get(RESTART, []):
        told = _clock(line)
        source, passed = text(told.get("source")), told.get("passed_ms")
        for name in ("boot", "offset_ms"):
            if source == BOOT and name in before and not same(told.get(name), before[name]):
                expected = f"{name} {shown(before[name])}, as before it, if the time since that boot went on"
                yield Finding(LOG, line.number, expected, told.get(name), mend, "note")
        before = told
        if source != BOOT:
            expected = "the time since boot, on the machine that the run began on"
            yield Finding(LOG, line.number, expected, f"the clock: {source or 'not told'}", mend, "note")
        known = {name: ms for name, ms in passed.items() if number(ms) is not None} if isinstance(passed, dict) else {}
        since = line.time_ms - run.lines[line.number - 2].time_ms if line.number > 1 else 0
        if known.get(source, 0) > since + _APART_MS:
            found = f"{known[source] / 1000:.1f} s by its {source}"
            yield Finding(
                LOG, line.number, f"at most the {since / 1000:.1f} s since the line before", found, mend, "note"
            )
        if known and max(known.values()) - min(known.values()) > _APART_MS:
            found = ", ".join(f"{name} {ms / 1000:.1f} s" for name, ms in known.items())
            yield Finding(LOG, line.number, "clocks that agree on the time lost", found, mend, "note")


def _clock(line: Line) -> dict[str, Any]:
    """What a line tells of the log's clock; nothing in older evidence."""
    clock = line.metadata.get("clock")
    return clock if isinstance(clock, dict) else {}


def _brief(value: Any) -> str:
    """A value as `shown`; only the type of one that may be long, since each line that differs repeats it."""
    return shown(value) if isinstance(value, str | int | float) else type(value).__name__


def _outcome(line: Line) -> dict[str, Any]:
    if line.key == TRACKED:
        return {"loss": line.value.get("loss") if isinstance(line.value, dict) else None}
    if line.key == STATE:
        return {"initial state": line.value}
    return {"quality": line.value, **{name: line.metadata.get(name) for name in _STATED}}
