"""Checks of the chapter "Audit": the logged sha256 of states, by which `suite.audit` can check a part of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import RESTART, STATE
from suite.record.evidence import LOG
from suite.record.mllog import Line
from suite.record.parsing import is_sha256
from suite.rules.finding import LOG_AS_WRITTEN, Finding
from suite.rules.reading import RESULT, RUN, Evidence
from suite.rules.runs import path_of

STATE_SHA256 = "state_sha256"  # in an evaluation's metadata


def sum_of(line: Line | None) -> str | None:
    """The sha256 of the state that `line` logs, initial or at an evaluation; None if it logs none."""
    found = None if line is None else line.value if line.key == STATE else line.metadata.get(STATE_SHA256)
    return found if is_sha256(found) else None


@RUN.rule("audit.1")
def states_logged(run: Evidence) -> Iterator[Finding]:
    """The sha256 of the state is logged at the start and at each evaluation. A run that logs none gets a note."""
    initial, evaluations = run.lines_of.get(STATE, []), run.lines_of.get(keys.EVAL_ACCURACY, [])
    if not initial and not any(STATE_SHA256 in line.metadata for line in evaluations):
        if run.readable and evaluations:
            expected = f"{STATE}, and {STATE_SHA256} at each evaluation"
            mend = "none: its runs cannot be trained again in part; a run of this suite can"
            yield Finding(LOG, None, expected, "none", mend, "note")
        return
    attempts = 1 + len(run.lines_of.get(RESTART, []))
    if run.readable and not 1 <= len(initial) <= attempts:
        where = initial[-1].number if initial else None
        yield Finding(LOG, where, f"one {STATE} of each attempt", len(initial), LOG_AS_WRITTEN)
    for line in (*initial, *evaluations):
        if sum_of(line) is None:
            found = line.value if line.key == STATE else line.metadata.get(STATE_SHA256)
            yield Finding(LOG, line.number, "the sha256 of the state", found, LOG_AS_WRITTEN)


@RESULT.rule("audit.1")
def states_logged_in_all(runs: Sequence[Evidence]) -> Iterator[Finding]:
    """If one run of a result logs its states, all do, since the same implementation trained them."""
    logging = next((run for run in runs if run.lines_of.get(STATE)), None)
    for run in runs:
        if logging and run.readable and not run.lines_of.get(STATE):
            yield Finding(path_of(run, LOG), None, f"{STATE}, as in {logging.label}", "none", LOG_AS_WRITTEN)


@RESULT.rule("audit.2")
def states_differ(runs: Sequence[Evidence]) -> Iterator[Finding]:
    """No state occurs in two runs, nor twice in one, except at the same samples, which a restart repeats."""
    first: dict[str, tuple[Evidence, Line]] = {}
    for run in runs:
        for line in (*run.lines_of.get(STATE, []), *run.lines_of.get(keys.EVAL_ACCURACY, [])):
            if (found := sum_of(line)) is None:
                continue
            other, before = first.setdefault(found, (run, line))
            again = line.metadata.get(keys.SAMPLES_COUNT) == before.metadata.get(keys.SAMPLES_COUNT)
            if other is not run or not again:
                again_at = f"that of {path_of(other, LOG)}:{before.number}"
                mend = "submit runs of the suite, each with its own seed"
                yield Finding(path_of(run, LOG), line.number, "a state of its own", again_at, mend)
