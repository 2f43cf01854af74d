"""Who is asked for the answers to examples: a model of this process, or, as `suite.serve.web.Client`, a server."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Protocol

from suite.serve.batching import Batcher
from suite.serve.model import Examples


class Asked(Protocol):
    """Answers, from any thread, with a future that raises Overloaded where the request was not taken.

    `processes` are those of this machine that do so beside this one.
    """

    processes: tuple[int, ...]

    def submit(self, index: int, wait: bool = False) -> Future[Any]:
        """The answer to the example of that number. One that may `wait` does so where a queue is full."""
        ...


class Local:
    """The model of this process whose requests `batcher` gathers."""

    processes: tuple[int, ...] = ()

    def __init__(self, examples: Examples, batcher: Batcher) -> None:
        self._examples, self._batcher = examples, batcher

    def submit(self, index: int, wait: bool = False) -> Future[Any]:
        """See `Asked`."""
        return self._batcher.submit(self._examples.request(index), wait)
