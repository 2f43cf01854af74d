"""The options of `python -m suite.serve`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from suite.errors import UserError, one_of, positive, whole

MOST_BATCH = 4096
BATCH, QUEUE = 32, 256
MOST_QUERIES = 10_000_000  # of a load: LoadGen makes them all before it begins, and 10 million take 3 to 6 GB
STREAM_RATE = 1_000  # queries a second that LoadGen makes for a stream whose own rate is not known yet
HOST = "127.0.0.1"
SCENARIOS = ("single-stream", "multi-stream", "server", "offline")
ALLOWED = (
    "scenario", "latency", "rate", "seconds", "batch", "wait", "queue", "listen", "url", "implementation", "hw",
    "precision", "data_dir",
)  # fmt: skip


@dataclass(frozen=True)
class Options:
    """What a command asks for; times are in seconds, `rate` in queries a second, None to find the highest."""

    scenarios: tuple[str, ...]
    latency: float
    rate: float | None
    seconds: float
    batch: int
    wait: float
    queue: int
    listen: tuple[str, int] | None
    url: str | None


def parse(given: Mapping[str, str]) -> Options:
    """Parse options by name. Raises UserError, which says what is allowed."""
    if "listen" in given and (others := given.keys() & {"url", "scenario", "rate", "latency", "seconds"}):
        raise UserError(f"listen= waits for others' load: leave out {', '.join(sorted(others))}")
    if "url" in given and (others := given.keys() & {"batch", "wait", "queue", "hw", "precision"}):
        raise UserError(f"url= has a model of its own: give {', '.join(sorted(others))} where it listens")
    scenarios = tuple(filter(None, given.get("scenario", ",".join(SCENARIOS)).split(",")))
    for each in scenarios or ("",):
        one_of("scenario", each, SCENARIOS)
    if "rate" in given and "server" not in scenarios:
        raise UserError(f"rate={given['rate']} is of scenario=server; {', '.join(scenarios)} ask as fast as they can")
    rate = positive("rate", given["rate"]) if "rate" in given else None
    seconds = positive("seconds", given.get("seconds", "10"), "seconds")
    _refuse_too_many(max(rate or 0.0, STREAM_RATE), seconds)
    batch, queue = _together(given)
    return Options(
        scenarios=scenarios,
        latency=positive("latency", given.get("latency", "0.1"), "seconds"),
        rate=rate,
        seconds=seconds,
        batch=batch,
        wait=_wait(given.get("wait", "0.002")),
        queue=queue,
        listen=_address(given["listen"]) if "listen" in given else None,
        url=given.get("url"),
    )


def _refuse_too_many(rate: float, seconds: float) -> None:
    if (queries := rate * seconds) > MOST_QUERIES:
        raise UserError(
            f"seconds={seconds:g} at {rate:,.0f} queries a second is {queries:,.0f} queries, and at most "
            f"{MOST_QUERIES:,} fit a load: give a lower rate= or fewer seconds="
        )


def _together(given: Mapping[str, str]) -> tuple[int, int]:
    """The batch size and how many requests may wait; if only one is given, the other is made to fit it."""
    batch = whole("batch", given["batch"], MOST_BATCH) if "batch" in given else BATCH
    queue = whole("queue", given["queue"]) if "queue" in given else max(QUEUE, 2 * batch)
    if "batch" not in given:
        batch = min(batch, queue)
    if queue < batch:
        raise UserError(f"batch={batch} never fills: at most queue={queue} requests wait; give queue={batch} or more")
    return batch, queue


def _wait(text: str) -> float:
    return 0.0 if re.fullmatch(r"0(\.0*)?", text) else positive("wait", text, "seconds")


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 1 << 16):
        raise UserError(f"listen={text} is no port or HOST:PORT; for example listen=8000")
    return host.strip("[]") or HOST, int(port)
