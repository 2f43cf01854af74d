"""Ctrl-C and SIGTERM as a question that the timed loop asks, so that a run ends with sealed evidence."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from suite.errors import Stopped

SIGNALS = (signal.SIGINT, signal.SIGTERM)  # Ctrl-C, and what a job scheduler sends before it kills
_SAID = "\nending after this step, with sealed evidence; a second signal ends it at once\n"


class Interrupted:
    """Tells whether the run is to end. While `armed`, the first signal only sets it; another one ends it at once."""

    def __init__(self) -> None:
        self.armed = False
        self.by: int | None = None

    def __call__(self) -> bool:
        """Whether a signal came."""
        return self.by is not None

    def arm(self) -> None:
        """From now on the first signal only sets it; what a framework has put in its place meanwhile goes."""
        for number in SIGNALS:
            signal.signal(number, self.handle)
        self.armed = True

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal. Raises Stopped where the run is to end at once."""
        if self.by is not None or not self.armed:
            raise Stopped(number)
        self.by = number
        with suppress(OSError):
            os.write(2, _SAID.encode())  # print may be at work on what it would write to


@contextmanager
def interruptible() -> Iterator[Interrupted]:
    """Handle `SIGNALS` by an `Interrupted` for as long as the block lasts."""
    interrupted = Interrupted()
    before = {number: signal.signal(number, interrupted.handle) for number in SIGNALS}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
