"""The log: MLPerf's MLLOG lines, each written as it happens and chained to the line before it.

A line is `:::MLLOG {json}` with the keys of MLCommons' `mlperf_logging.mllog` (namespace, time_ms, event_type, key,
value, metadata). Our one addition is `metadata.prev`: the sha256 of the bytes of the line before, without its newline,
so that no line can be changed, added or taken away unseen. The last line's hash stands in the manifest.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import RESTART
from suite.record.clock import begun, resumed
from suite.record.parsing import MalformedError, decoded, json_value, whole

TOKEN = ":::MLLOG "
MAX_LINE_BYTES = 1 << 20
EARLIEST_MS = 1_795_132_800_000  # 2026-11-20, when the suite was begun: no run of it is older
INTERRUPT = "interrupt"  # the reason of a run_stop after which a run may go on
FIRST_PREV = hashlib.sha256(b"").hexdigest()


def line_hash(line: bytes) -> str:
    """The sha256 that the next line carries as `metadata.prev`."""
    return hashlib.sha256(line).hexdigest()


@dataclass(frozen=True)
class Line:
    """One line of a log file. If it is not a well-formed MLLOG line, `problem` says why; parsed fields are empty."""

    number: int
    raw: bytes
    key: str = ""
    value: Any = None
    time_ms: int = 0
    event_type: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    problem: str = ""


def parse(number: int, raw: bytes) -> Line:
    """The line `raw` (without newline) as a `Line`; never raises."""

    def bad(problem: str) -> Line:
        return Line(number, raw, problem=problem)

    if len(raw) > MAX_LINE_BYTES:
        return bad(f"longer than {MAX_LINE_BYTES} bytes")
    if not raw.startswith(TOKEN.encode()):
        return bad(f"does not start with {TOKEN.strip()!r}")
    try:
        text = decoded(raw[len(TOKEN) :])
        if len(f"{text}.".splitlines()) > 1:
            return bad("holds a character that ends a line for other readers")
        record = json_value(text)
    except MalformedError as error:
        return bad(str(error))
    if not isinstance(record, dict):
        return bad("not a JSON object")
    for name, kind in (("time_ms", int), ("event_type", str), ("key", str), ("metadata", dict)):
        if not isinstance(record.get(name), kind) or isinstance(record[name], bool):
            return bad(f"{name} is missing or not {kind.__name__}")
    if record["time_ms"] < 0:
        return bad("time_ms is negative")
    return Line(
        number, raw, record["key"], record.get("value"), record["time_ms"], record["event_type"], record["metadata"]
    )


def read(path: Path) -> Iterator[Line]:
    """The lines of a log, numbered from 1. Memory is bounded by one line of `MAX_LINE_BYTES`."""
    with path.open("rb") as file:
        number = 0
        while chunk := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(chunk) > MAX_LINE_BYTES:
                while chunk[-1:] != b"\n" and (rest := file.readline(MAX_LINE_BYTES)):
                    chunk = chunk[:MAX_LINE_BYTES] + b"+" + rest[-1:]
            yield parse(number, chunk.removesuffix(b"\n"))


def whole_lines(content: bytes) -> list[Line]:
    """The lines of a log's content, without an incomplete one at its end, which a kill cut off."""
    return [parse(number, raw) for number, raw in enumerate(content.split(b"\n")[:-1], 1)]


def samples_of(line: Line) -> int | None:
    """The training samples at which `line` was logged, None if it does not say."""
    return whole(line.metadata.get(keys.SAMPLES_COUNT))


def evaluations(lines: Iterable[Line]) -> list[Line]:
    """The eval_accuracy lines that count: a restart discards those after the state that it resumes from."""
    counting: list[Line] = []
    for line in lines:
        if line.key == keys.EVAL_ACCURACY:
            counting.append(line)
        elif line.key == RESTART:
            behind = samples_of(line) or 0
            while counting and (samples_of(counting[-1]) or 0) > behind:
                counting.pop()
    return counting


def since_restart(lines: Sequence[Line]) -> Sequence[Line]:
    """The lines from the last restart on; all lines if there was none."""
    at = next((at for at in range(len(lines) - 1, -1, -1) if lines[at].key == RESTART), 0)
    return lines[at:]


def run_stop(lines: Sequence[Line]) -> Line | None:
    """The run_stop that ends a run; None if there is none, or if the run went on after it, as it may after Ctrl-C."""
    return next((line for line in reversed(since_restart(lines)) if line.key == keys.RUN_STOP), None)


def is_interrupt(stop: Line) -> bool:
    """Whether this run_stop is by Ctrl-C or SIGTERM, so that the run may go on."""
    return bool(stop.metadata.get("reason") == INTERRUPT)


class Log:
    """Writes a run's log, or goes on with one after a restart.

    Every line reaches the operating system at once, and the disk with `sync()`. The line that begins or resumes a log
    has `clock.told()` as `clock` in its metadata. No line of a new log is earlier than `not_before_ms`, in milliseconds
    since 1970. `listeners` are called with each line written; the terminal and other views are listeners.
    """

    def __init__(self, path: Path, not_before_ms: int = 0) -> None:
        self.path = path
        self._prev, self.clock, kept, self.torn_bytes = FIRST_PREV, begun(not_before_ms), 0, 0
        self.lines: list[Line] = []
        self.listeners: list[Callable[[Line], None]] = []
        if path.exists():
            content = path.read_bytes()
            kept = content.rfind(b"\n") + 1
            self.lines = whole_lines(content)
            if self.lines:
                self._prev = line_hash(self.lines[-1].raw)
                told = (line.metadata.get("clock") for line in reversed(self.lines))
                clock = next((each for each in told if isinstance(each, dict)), {})
                self.clock = resumed(self.lines[-1].time_ms, clock, path)
            self.torn_bytes = len(content) - kept
        self._file = path.open("ab", buffering=0)
        # Remove a line that a kill cut off. Leave a whole log alone: its file's time is a clock of `resumed`
        if self.torn_bytes:
            self._file.truncate(kept)

    def _write(self, event_type: str, key: str, value: Any, metadata: dict[str, Any]) -> Line:
        caller = sys._getframe(2)
        record = {
            "namespace": "",
            "time_ms": self.clock.now_ms(),
            "event_type": event_type,
            "key": key,
            "value": value,
            "metadata": {
                "file": os.path.basename(caller.f_code.co_filename),
                "lineno": caller.f_lineno,
                **metadata,
                "prev": self._prev,
            },
        }
        raw = (TOKEN + json.dumps(record, allow_nan=False, separators=(", ", ": "))).encode()
        if (written := self._file.write(raw + b"\n")) <= len(raw):
            self._file.truncate(self._file.tell() - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._prev = line_hash(raw)
        line = parse(len(self.lines) + 1, raw)
        self.lines.append(line)
        for listener in self.listeners:
            listener(line)
        return line

    def event(self, key: str, value: Any = None, **metadata: Any) -> Line:
        """Log a point in time. `value` and `metadata` are JSON values; raises ValueError for NaN or infinity.

        Raises OSError, as `start` and `stop` do, where the disk refuses the line or a part of it: none of it is kept.
        """
        return self._write(keys.POINT_IN_TIME, key, value, metadata)

    def start(self, key: str, **metadata: Any) -> Line:
        """Log the start of an interval."""
        return self._write(keys.INTERVAL_START, key, None, metadata)

    def stop(self, key: str, **metadata: Any) -> Line:
        """Log the end of an interval."""
        return self._write(keys.INTERVAL_END, key, None, metadata)

    def now_ms(self) -> int:
        """The log's clock: milliseconds since 1970, never backwards."""
        return self.clock.now_ms()

    @property
    def head(self) -> str:
        """The hash of the last line."""
        return self._prev

    def has(self, key: str) -> bool:
        """Whether an event of this key was logged."""
        return any(line.key == key for line in self.lines)

    def sync(self) -> None:
        """Return when every line is on the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Flush to the disk and close."""
        self.sync()
        self._file.close()
