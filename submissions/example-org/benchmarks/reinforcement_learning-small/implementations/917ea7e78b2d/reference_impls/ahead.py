"""Reads the next step's input while the device works on the current step."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Read = TypeVar("Read")


class Ahead(Iterator[Read]):
    """Iterates over `steps`, reading each item in a thread while the one before it is in use."""

    def __init__(self, steps: Iterator[Read]) -> None:
        self.steps, self.reader = steps, ThreadPoolExecutor(1)
        self.coming: Future[Read] = self.reader.submit(next, steps)

    def __next__(self) -> Read:
        """The next step's input."""
        found = self.coming.result()
        self.coming = self.reader.submit(next, self.steps)
        return found
