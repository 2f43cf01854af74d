"""Read the lines of an MLPerf Training log of any round: v0.5, 0.6 (`:::MLL`) and 0.7 on (`:::MLLOG` with JSON).

What counts as a well-formed line follows the official parsers: text is latin-1, lines end at LF, CR or CR LF, and the
last token in a line begins the log line. Line numbers, however, are those of the file: from 1, counting LF.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, islice
from typing import Any

from pydantic_core import from_json

from suite.store.disk import UnsafeFile

MAX_LINES = 200_000  # log lines of one file
MAX_PROBLEMS = 1000  # malformed lines at which a file is given up

TOKEN_05 = ":::MLPv0.5.0 "
_06 = ":::MLL"
_07 = ":::MLLOG "
_LINE_05 = re.compile(r"(\S+) ([0-9.]+) \([^()]*\) ([A-Za-z0-9_]+)(?:: (.*))?\Z")
_LINE_06 = re.compile(r" ([\d.]+) ([A-Za-z0-9_]+) ?:\s+(.+)\Z")


class _All:
    """A container of every key."""

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str)


ALL: Container[str] = _All()


@dataclass(slots=True)
class LogLine:
    """One line, with the attributes that the rule files use.

    `timestamp` is in milliseconds, or in seconds up to v0.6. `value` has at least the keys `value` and `metadata`,
    except in v0.6, where it may be anything. `lineno` is the line's place among the tokens of the file (`Log.number`
    converts it to a line number), or -1 for a line that a rule file added; nothing but such a file sets `full_string`.
    """

    timestamp: float
    key: str
    value: Any
    lineno: int
    full_string: str = ""


@dataclass(slots=True)
class Problem:
    """A malformed line; on some of them the official checker ends in a traceback."""

    lineno: int
    what: str


@dataclass
class Log:
    """A log as read. `lines` are the ones whose keys were asked for, `count` is the number of all well-formed ones."""

    token: str
    pieces: list[str]  # the file's text, split at the tokens
    lines: list[LogLine] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    count: int = 0

    @property
    def cut(self) -> bool:
        """Whether the file was given up because too many of its lines are malformed."""
        return len(self.problems) >= MAX_PROBLEMS

    @property
    def second(self) -> float:
        """One second in the unit of its times: the first two rounds log seconds, later ones milliseconds."""
        return 1000.0 if self.token == _07 else 1.0

    def timed(self) -> tuple[LogLine, LogLine] | None:
        """The run_start and the run_stop between which the official summarizer times the run, None if one is missing.

        It takes the latest of each at the line where it has met both.
        """
        start = stop = None
        for line in self.lines:
            if line.key == "run_start":
                start = line
            elif line.key == "run_stop":
                stop = line
            if start and stop:
                return start, stop
        return None

    def number(self, lineno: int) -> int | None:
        """The line number in the file, from 1, of the `lineno`-th token; None for a line that is not in the file."""
        return self._numbers[lineno] if lineno >= 1 else None

    @cached_property
    def _numbers(self) -> list[int]:
        return list(accumulate((piece.count("\n") for piece in self.pieces), initial=1))

    def prefixes(self) -> list[str]:
        """The text before each token in its line, by `lineno`; entry 0 is empty."""
        return ["", *(piece[piece.rfind("\n") + 1 :] for piece in self.pieces[:-1])]


def read(content: bytes, ruleset: str, keys: Container[str]) -> Log:
    """Read a log of the round `ruleset` from a file's `content`; keep the well-formed lines whose key is in `keys`.

    Raises UnsafeFile for more than MAX_LINES log lines.
    """
    text = content.decode("latin-1")
    token = {"mlperf-0.5": TOKEN_05, "mlperf-0.6": _06}.get(ruleset, _07)
    log = Log(token, pieces := text.split(token))
    if len(pieces) > MAX_LINES:
        raise UnsafeFile(f"has more than {MAX_LINES} log lines")
    if text.count("\r") != text.count("\r\n"):  # a CR before LF is white space to JSON, one alone ends a line
        pieces = text.replace("\r", "\n").split(token)
    if token == _07:
        _read_07(log, pieces, keys)
    else:
        _read_by(_parsed_05 if token == TOKEN_05 else _parsed_06, log, pieces, keys)
    return log


def _read_07(log: Log, pieces: list[str], keys: Container[str]) -> None:
    """Read `pieces`, each of which but the first follows a token, almost always with a JSON object and a line's end.

    `from_json` takes two thirds of the time of `json.loads`. What it accepts is JSON; what it refuses goes to
    `json.loads`, which decides as in the official parser.
    """
    lines, last, skipped = log.lines, len(pieces) - 1, 0
    for lineno, piece in enumerate(islice(pieces, 1, None), 1):
        end = piece.find("\n")
        try:
            entry = from_json(piece[: end if end >= 0 else 0])
            time = float(entry["time_ms"])
            key = entry["key"]
            entry["value"], entry["metadata"]
            if key in keys:
                lines.append(LogLine(time, key, entry, lineno))
            continue
        except Exception:  # whatever it is, the slow way finds out
            pass
        if end < 0 and lineno < last:
            skipped += 1  # a further token stands in this line
        elif not log.cut:
            _one(_parsed_07, log, piece.partition("\n")[0], lineno, keys)
    log.count = last - skipped - len(log.problems)


def _read_by(parsed: Callable[[str, int], LogLine], log: Log, pieces: list[str], keys: Container[str]) -> None:
    last, skipped = len(pieces) - 1, 0
    for lineno in range(1, len(pieces)):
        line, end_of_line, _ = pieces[lineno].partition("\n")
        if not end_of_line and lineno < last:
            skipped += 1
        elif not log.cut:
            _one(parsed, log, line, lineno, keys)
    log.count = last - skipped - len(log.problems)


def _one(parsed: Callable[[str, int], LogLine], log: Log, line: str, lineno: int, keys: Container[str]) -> None:
    try:
        made = parsed(line.rstrip(), lineno)
    except ValueError as error:
        log.problems.append(Problem(lineno, str(error)))
    except KeyError as error:
        log.problems.append(Problem(lineno, f"no {error.args[0]}"))
    except (TypeError, OverflowError, RecursionError) as error:
        log.problems.append(Problem(lineno, f"not a log line's object: {type(error).__name__}"))
    else:
        if isinstance(made.key, str) and made.key in keys:
            log.lines.append(made)


def _parsed_07(line: str, lineno: int) -> LogLine:
    entry = json.loads(line)
    if entry is None:
        raise ValueError("no object")
    time = float(entry["time_ms"])
    entry["value"], entry["metadata"]
    return LogLine(time, entry["key"], entry, lineno)


def _parsed_06(line: str, lineno: int) -> LogLine:
    match = _LINE_06.match(line)
    if match is None:
        raise ValueError("not of the form :::MLL SECONDS KEY: JSON")
    return LogLine(float(match[1]), match[2], json.loads(match[3]), lineno)


def _parsed_05(line: str, lineno: int) -> LogLine:
    """Parse a line of v0.5, which had no rule for values: one that is not JSON is kept as text."""
    match = _LINE_05.match(line)
    if match is None:
        raise ValueError("not of the form :::MLPv0.5.0 BENCHMARK SECONDS (FILE:LINE) KEY[: JSON]")
    value = match[4]
    if value is not None:
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    entry: dict[str, Any] = {"value": value, "metadata": {}, "benchmark": match[1]}
    return LogLine(float(match[2]), match[3], entry, lineno)
