"""The clock of a log: milliseconds since 1970 that never run backwards, and lose nothing between a kill and a restart.

The system's time may be set while a run is stopped; the time since the machine's boot cannot. So a log records which
boot it belongs to, and the offset from the time since that boot to its own time.
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
BOOT = "boot"  # the clock that nobody can set
APART_MS = 1000  # clocks that differ by no more than this agree

Source = Literal["boot", "wall", "file", "unknown"]


@dataclass(frozen=True)
class Clock:
    """A clock that adds `offset_ms` to the time since boot; `boot` is a hash of that boot's id, None if there is none.

    `source` is the clock that told the time when the log was resumed; `passed_ms` has how long, by each clock that
    knows, the log had been idle by then.
    """

    offset_ms: int
    boot: str | None
    source: Source = "wall"
    passed_ms: Mapping[str, int] = field(default_factory=dict)

    def now_ms(self) -> int:
        """The current time in milliseconds since 1970."""
        return self.offset_ms + _since_boot_ms()

    def told(self) -> dict[str, Any]:
        """What a log records of its clock, for `resumed` to go on with."""
        return {"boot": self.boot, "offset_ms": self.offset_ms}


def begun(not_before_ms: int) -> Clock:
    """The clock of a new log: the system's time, but not before `not_before_ms`."""
    return Clock(max(_wall_ms(), not_before_ms) - _since_boot_ms(), _boot())


def resumed(last_ms: int, told: Mapping[str, Any], path: Path) -> Clock:
    """The clock to resume the log at `path` with; `last_ms` is its last line's time, `told` what it says of its clock.

    It follows the time since boot if the machine has not rebooted. Otherwise it follows the system's time, or the file
    system's if that is ahead (it may be another machine's). If that lies before `last_ms`, it goes on from `last_ms`.
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
    """Milliseconds since boot, including time asleep where the system counts it."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000


def _boot() -> str | None:
    """A hash of the system's id for this boot, which does not reveal the host; None if there is no id."""
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
