"""Turns Ctrl-C and SIGTERM into a flag that the timed loop polls, so that a run ends with sealed evidence."""

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
    """A flag for the end of the run. Once `armed`, the first signal only sets it; a second ends the run at once."""

    def __init__(self) -> None:
        self.armed = False
        self.by: int | None = None

    def __call__(self) -> bool:
        """Whether a signal came."""
        return self.by is not None

    def arm(self) -> None:
        """Let the first signal only set the flag from now on, and replace handlers that a framework has installed."""
        for number in SIGNALS:
            signal.signal(number, self.handle)
        self.armed = True

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal. Raises Stopped where the run is to end at once."""
        if self.by is not None or not self.armed:
            raise Stopped(number)
        self.by = number
        with suppress(OSError):
            os.write(2, _SAID.encode())  # not print: the signal may have interrupted one


@contextmanager
def interruptible() -> Iterator[Interrupted]:
    """Handle `SIGNALS` with an `Interrupted` for as long as the block lasts."""
    interrupted = Interrupted()
    before = {number: signal.signal(number, interrupted.handle) for number in SIGNALS}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
