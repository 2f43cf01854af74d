"""Processes that work beside this one."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def blocked(*signals: signal.Signals) -> Iterator[None]:
    """Block `signals` in this process during the block, and from the first moment on in processes started in it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent() -> None:
    """An initializer for a pool's processes: it ends them when their parent ends.

    They wait for work on a pipe whose other end they hold, too, so without it they would outlive a killed parent.
    """
    parent = multiprocessing.parent_process()
    assert parent

    def wait() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=wait, name="end with parent", daemon=True).start()
