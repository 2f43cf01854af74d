"""What happened in a run and in which order, by a state machine over the lines of its log."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import (
    COST,
    ENERGY,
    HEAD,
    IMPLEMENTATION,
    IMPLEMENTATION_AFTER,
    RESTART,
    STATE,
    TRACKED,
    WITNESS,
)
from suite.record.evidence import LOG
from suite.record.mllog import Line, evaluations, is_interrupt
from suite.record.parsing import number
from suite.rules.finding import LOG_AS_WRITTEN, Finding

POINT, START, END = keys.POINT_IN_TIME, keys.INTERVAL_START, keys.INTERVAL_END

# key: (state it is allowed in, state it leads to, type of event)
STEPS = {
    keys.CACHE_CLEAR: ("new", "cleared", POINT),
    keys.INIT_START: ("cleared", "initialising", START),
    keys.INIT_STOP: ("initialising", "ready", END),
    keys.RUN_START: ("ready", "running", START),
    keys.BLOCK_START: ("running", "training", START),
    keys.EVAL_START: ("training", "evaluating", START),
    keys.EVAL_ACCURACY: ("evaluating", "scored", POINT),
    keys.EVAL_STOP: ("scored", "evaluated", END),
    keys.BLOCK_STOP: ("training", "running", END),
    keys.RUN_STOP: ("running", "stopped", END),
}
ALSO = {keys.BLOCK_STOP: "evaluated"}  # a second state that the key is allowed in
IN_RUN = (keys.BLOCK_START, keys.EVAL_START, keys.EVAL_ACCURACY, keys.EVAL_STOP, keys.BLOCK_STOP)
HEAD_STATE = "initialising"
INTERRUPTED = "interrupted"  # stopped by a signal, so that a restart may follow
ENDED = ("stopped", INTERRUPTED)
# The states in which a run may be killed, and the state that a restart continues in.
GOES_ON = {
    **dict.fromkeys((HEAD_STATE, "ready"), HEAD_STATE),
    **dict.fromkeys(("running", "training", "evaluating", "scored", "evaluated", INTERRUPTED), "running"),
}

TAIL = (ENERGY, COST)
ONCE = (*HEAD, *TAIL)


@dataclass
class Timeline:
    """The order of a log. `evaluations` are the eval_accuracy lines that count: no restart went back behind them.

    `findings` are the departures from the expected order, one for each gap.
    """

    run_start: Line | None = None
    run_stop: Line | None = None
    evaluations: list[Line] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def timeline(lines: Sequence[Line], hyperparameters: Collection[str] = ()) -> Timeline:
    """The timeline of a log's lines. `hyperparameters` names those of its benchmark.

    After a line that cannot be read the state is unknown, and any line may follow.
    """
    made = Timeline(evaluations=evaluations(line for line in lines if not line.problem))
    state: str | None = "new"  # None: not known
    for line in lines:
        if line.problem:
            state = None
            continue
        allowed, after = ((HEAD_STATE,), state) if line.key in hyperparameters else _place(line.key, state)
        if state is not None and state not in allowed:
            expected = f"{_expected(state)} (the run is {state})"
            made.findings.append(Finding(LOG, line.number, expected, line.key, LOG_AS_WRITTEN))
        if line.key in STEPS and line.event_type != STEPS[line.key][2]:
            expected = f"{line.key} as {STEPS[line.key][2]}"
            made.findings.append(Finding(LOG, line.number, expected, line.event_type, LOG_AS_WRITTEN))
        if line.key == TRACKED and not _tracks(line):
            made.findings.append(Finding(LOG, line.number, "throughput and loss", line.value, LOG_AS_WRITTEN))
        if line.key == keys.RUN_START and made.run_start is None:
            made.run_start = line
        elif line.key == keys.RUN_STOP:
            made.run_stop, after = line, INTERRUPTED if is_interrupt(line) else after
        elif line.key == RESTART:
            made.run_stop = None
        state = after
    if state not in (*ENDED, None) and lines:
        mend = "submit complete runs: go on with an interrupted one by python -m suite.run resume=FOLDER"
        made.findings.append(Finding(LOG, lines[-1].number, _expected(state), "the end of the log", mend))
    return made


def _place(key: str, state: str | None) -> tuple[tuple[str | None, ...], str | None]:
    """The states that `key` is allowed in, and the state after it."""
    if key in STEPS:
        before, after, _ = STEPS[key]
        return (before, ALSO.get(key, before)), after
    if key == RESTART:
        return tuple(GOES_ON), GOES_ON.get(state or "")
    if key == TRACKED:
        return ("training",), state
    if key in (*HEAD, IMPLEMENTATION, STATE):
        return (HEAD_STATE,), state
    if key in (*TAIL, IMPLEMENTATION_AFTER, WITNESS):
        return ENDED, state if state in ENDED else "stopped"
    return (state,), state


def _tracks(line: Line) -> bool:
    """Whether a tracked_stats line has a throughput and a loss; an unknown loss is None."""
    value = line.value
    return isinstance(value, dict) and "loss" in value and number(value.get("throughput")) is not None


def _expected(state: str) -> str:
    return " or ".join(key for key, step in STEPS.items() if state in (step[0], ALSO.get(key))) or "no further step"
