"""Ctrl-C while threads run compiled code, which cannot be stopped."""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from suite.errors import BY_SIGNAL


@contextmanager
def at_once() -> Iterator[None]:
    """On Ctrl-C in this context, let the process end before its threads, which would abort it."""
    try:
        yield
    except KeyboardInterrupt:
        atexit.register(os._exit, BY_SIGNAL + signal.SIGINT)
        raise
