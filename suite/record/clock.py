"""The clock of a log: milliseconds since 1970 that never run backwards, and lose nothing between a kill and a restart.

The system's time may be set while a run lies still; the time since the machine's boot may not. So a log says of which
boot it is, and what has to be added to the time since that boot to have its own.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from suite.record.parsing import text, whole

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
BOOT = "boot"  # the clock that nobody sets
APART_MS = 1000  # between two clocks that agree

Source = Literal["boot", "wall", "file", "unknown"]


@dataclass(frozen=True)
class Clock:
    """Adds `offset_ms` to the time since the boot `boot`, of which that is a hash; None where the system tells none.

    `source` is what told the time when the log was gone on with, `passed_ms` how long, by each clock that knows, the
    log had then lain still.
    """

    offset_ms: int
    boot: str | None
    source: Source = "wall"
    passed_ms: Mapping[str, int] = field(default_factory=dict)

    def now_ms(self) -> int:
        """The current time in milliseconds since 1970."""
        return self.offset_ms + _since_boot_ms()

    def told(self) -> dict[str, Any]:
        """What a log says of its clock, for `resumed` to go on with."""
        return {"boot": self.boot, "offset_ms": self.offset_ms}


def begun(not_before_ms: int = 0) -> Clock:
    """The clock of a new log: the system's time, but not before `not_before_ms`."""
    return Clock(max(_wall_ms(), not_before_ms) - _since_boot_ms(), _boot())


def resumed(last_ms: int, told: Mapping[str, Any], path: Path) -> Clock:
    """The clock to go on with the log at `path`, whose last line is of `last_ms`; `told` is what it says of its own.

    It is the time since boot where the machine has not been booted since; else the system's time, unless the file
    system knows of more (its clock may be another machine's); else the time stands where it stood.
    """
    boot, offset_ms = text(told.get("boot")), whole(told.get("offset_ms"))
    passed = {"wall": _wall_ms() - last_ms}
    if boot is not None and boot == _boot() and offset_ms is not None:
        passed[BOOT] = offset_ms + _since_boot_ms() - last_ms
    if (since_written := _since_written_ms(path)) is not None:
        passed["file"] = since_written
    source: Source = "boot"
    if passed.get(BOOT, -1) < 0:
        source = "file" if passed.get("file", passed["wall"]) > passed["wall"] + APART_MS else "wall"
    if passed[source] < 0:
        source = "unknown"
    now_ms = last_ms + passed.get(source, 0)
    offset = offset_ms if source == BOOT and offset_ms is not None else now_ms - _since_boot_ms()
    return Clock(offset, _boot(), source, passed)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _since_boot_ms() -> int:
    """Milliseconds since the boot, with those in which the machine slept where the system counts them."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000


def _boot() -> str | None:
    """A hash of the name that the system gives to this boot, which tells no host."""
    try:
        return hashlib.sha256(BOOT_ID.read_bytes().strip()).hexdigest()[:16]
    except OSError:
        return None


def _since_written_ms(path: Path) -> int | None:
    """How long ago, by the file system's own clock, the file at `path` was written to."""
    try:
        with tempfile.TemporaryFile(dir=path.parent) as fresh:
            fresh.write(b"now")
            fresh.flush()
            return (os.fstat(fresh.fileno()).st_mtime_ns - path.stat().st_mtime_ns) // 1_000_000
    except OSError:
        return None
