"""A Chrome trace of steps in TensorFlow, made from its profile: rows for run, steps, phases, layers and operations.

A phase or layer is a span for as long as consecutive operations belong to it. If the executor turns to another
meanwhile, it is in several pieces. Operations that overlap lie in rows of their own.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from suite.probe.instruments.tensorflow_profile import Event, everything
from suite.probe.instruments.tensorflow_watch import Noted, Watched
from suite.probe.record import dumps
from suite.probe.tracing import LAYER, OPERATOR, OUTSIDE, PHASE, RUN, STEP, Timeline
from suite.store.disk import write_text

MARK = "probe step "  # begins the profiler's name of a step
ROWS = (RUN, STEP, PHASE, LAYER)

Operations = Sequence[tuple[Event, Noted]]


class Span(NamedTuple):
    """A bar of the trace: its kind, what it is called, its row, begin and end in seconds of the profiler's clock."""

    kind: str
    name: str
    row: int
    begin: float
    end: float


def timeline(watched: Watched, steps: int, path: Path) -> Timeline:
    """See `Instruments.timeline`."""

    def stepped(steps: int) -> None:
        for step in range(1, steps + 1):
            with tf.profiler.experimental.Trace(f"{MARK}{step}"):
                watched.workload.run(1)

    with tempfile.TemporaryDirectory() as folder:
        seconds = watched.profiled(steps, Path(folder), stepped)
        operations = sorted(watched.events(Path(folder)), key=lambda each: each[0].start)
        marks = sorted(_marks(Path(folder)))
    spans = list(_spans(operations, marks))
    events = [*_named(spans), *(_event(span, spans[0].begin) for span in spans)]
    write_text(path, dumps({"traceEvents": events, "displayTimeUnit": "ms"}))
    return Timeline(steps, seconds, dict(Counter(span.kind for span in spans)))


def _marks(folder: Path) -> Iterator[tuple[float, float, str]]:
    """Begin, end and number of each step."""
    for _, _, event in everything(folder):
        if event.name.startswith(MARK):
            yield event.start, event.start + event.seconds, event.name.removeprefix(MARK)


def _spans(operations: Operations, marks: Sequence[tuple[float, float, str]]) -> Iterator[Span]:
    if marks:
        yield Span(RUN, RUN, 0, marks[0][0], marks[-1][1])
    free: list[float] = []  # when each row of operations becomes free
    for begin, end, number in marks:
        yield Span(STEP, f"{STEP} {number}", 1, begin, end)
        within = [each for each in operations if begin <= each[0].start < end]
        yield from _pieces(PHASE, within, lambda noted: noted.phase)
        yield from _pieces(LAYER, within, lambda noted: (noted.phase, noted.layer))
        for event, noted in within:
            row = next((at for at, since in enumerate(free) if since <= event.start), len(free))
            free[row : row + 1] = [event.start + event.seconds]
            yield Span(OPERATOR, f"{noted.kind} {noted.shapes}", len(ROWS) + row, event.start, free[row])


def _pieces(kind: str, operations: Operations, key: Callable[[Noted], Any]) -> Iterator[Span]:
    """A span for each series of operations with one key; it ends where the next begins, at the latest."""
    runs = [(of, list(each)) for of, each in groupby(operations, lambda each: key(each[1]))]
    starts = [its[0][0].start for _, its in runs]
    for (of, its), after in zip(runs, [*starts[1:], float("inf")], strict=True):
        end = min(after, max(event.start + event.seconds for event, _ in its))
        name = of if isinstance(of, str) else of[1] or OUTSIDE
        yield Span(kind, f"{kind} {name}", ROWS.index(kind), its[0][0].start, end)


def _event(span: Span, since: float) -> dict[str, Any]:
    """A complete event of the Trace Event Format, with times in microseconds since `since`."""
    times = {"ts": (span.begin - since) * 1e6, "dur": (span.end - span.begin) * 1e6}
    return {"ph": "X", "cat": span.kind, "name": span.name, "pid": 1, "tid": span.row, **times}


def _named(spans: Sequence[Span]) -> Iterator[dict[str, Any]]:
    for row in sorted({span.row for span in spans}):
        name = ROWS[row] if row < len(ROWS) else f"operations {row - len(ROWS) + 1}"
        yield {"ph": "M", "name": "thread_name", "pid": 1, "tid": row, "args": {"name": name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": row, "args": {"sort_index": row}}
