"""How memory is kept between steps on a CPU, and let go of between implementations."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

import psutil

GROWN = 1 << 30  # bytes that a process may have more than when it last let go
_held: list[int] = []  # what it had then


def keep_freed_memory() -> None:
    """Let glibc reuse large blocks instead of giving them back: saves the page faults of each step on a CPU."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
        libc.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD


def let_go(device_kind: str) -> None:
    """Free what implementations kept that were dropped: they hold themselves by what they compile.

    On a GPU always, of whose memory Python knows nothing; else where the process has grown by GROWN, for to look
    through what a framework makes takes half a second.
    """
    process = psutil.Process()
    if device_kind == "gpu" or process.memory_info().rss > sum(_held) + GROWN:
        gc.collect()
        _held[:] = [process.memory_info().rss]
