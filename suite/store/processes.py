"""Processes that work beside this one."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Made = TypeVar("Made")


@contextmanager
def blocked(*signals: signal.Signals) -> Iterator[None]:
    """Block `signals` in this process during the block, and from the first moment on in processes started in it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Pool(ProcessPoolExecutor):
    """Other processes: they do not feel Ctrl-C, end with this one, and are killed if an exception leaves the block.

    Each calls `begin` with what is `given` before it works. Where one is killed, iterate over futures, not over `map`:
    that cancels the others, which Python 3.11 may hang on.
    """

    def __init__(
        self, processes: int, method: str = "spawn", begin: Callable[..., object] | None = None, *given: object
    ) -> None:
        super().__init__(processes, multiprocessing.get_context(method), partial(_begin, begin, *given))

    def submit(self, work: Callable[Given, Made], /, *args: Given.args, **kwargs: Given.kwargs) -> Future[Made]:
        """See `ProcessPoolExecutor.submit`; it starts the processes."""
        with blocked(signal.SIGINT):
            return super().submit(work, *args, **kwargs)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind:
            for process in multiprocessing.active_children():
                process.kill()
        super().__exit__(kind, error, traceback)


def _begin(begin: Callable[..., object] | None, *given: object) -> None:
    """Prepare a pool's process.

    It waits for work on a pipe whose other end it holds, too, so it would outlive a killed parent by itself.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a fork has its parent's handler
    parent = multiprocessing.parent_process()
    assert parent

    def wait() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=wait, name="end with parent", daemon=True).start()
    if begin:
        begin(*given)
