"""Ctrl-C while threads of compiled code are at work, which cannot be stopped."""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from suite.errors import BY_SIGNAL


@contextmanager
def at_once() -> Iterator[None]:
    """Where Ctrl-C comes meanwhile, the process ends before its threads, which would abort it."""
    try:
        yield
    except KeyboardInterrupt:
        atexit.register(os._exit, BY_SIGNAL + signal.SIGINT)
        raise
