"""Ctrl-C as a question that the timed loop asks, so that a run ends with sealed evidence."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted:
    """Tells whether Ctrl-C was pressed. While `armed`, the first press only sets it; else it interrupts at once."""

    def __init__(self) -> None:
        self.armed = False
        self._pressed = False

    def __call__(self) -> bool:
        """Whether it was pressed."""
        return self._pressed

    def press(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGINT."""
        if self._pressed or not self.armed:
            raise KeyboardInterrupt
        self._pressed = True


@contextmanager
def interruptible() -> Iterator[Interrupted]:
    """Handle SIGINT by an `Interrupted` for as long as the block lasts."""
    interrupted = Interrupted()
    before = signal.signal(signal.SIGINT, interrupted.press)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)
