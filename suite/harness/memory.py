"""Keeps freed memory between steps on a CPU, and frees it between implementations."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

import psutil

GROWN = 1 << 30  # bytes by which a process may grow before `let_go` collects again
_held: list[int] = []  # its size after the last collection


def keep_freed_memory() -> None:
    """Let glibc reuse large blocks instead of giving them back: saves the page faults of each step on a CPU."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
        libc.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD


def let_go(device_kind: str) -> None:
    """Free the memory of dropped implementations, which what they compiled keeps alive in reference cycles.

    On a GPU this is always done, as Python knows nothing of its memory. Elsewhere it is done only once the process has
    grown by GROWN, as collecting among a framework's objects takes half a second.
    """
    process = psutil.Process()
    if device_kind == "gpu" or process.memory_info().rss > sum(_held) + GROWN:
        gc.collect()
        _held[:] = [process.memory_info().rss]
