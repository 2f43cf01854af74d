"""Processes that work beside this one."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import threading


def end_with_parent() -> None:
    """An initializer for a pool's processes, which wait for work in a pipe that they hold the other end of as well.

    Without it they would outlive, without end, a parent that was killed.
    """
    parent = multiprocessing.parent_process()
    assert parent

    def wait() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=wait, name="end with parent", daemon=True).start()
