"""What the load asks for answers: a model in this process, or a server, through `suite.serve.web.Client`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar

from suite.serve.batching import Batcher
from suite.serve.model import Examples

MOST_BYTES = 1 << 30  # of requests that are kept
Made = TypeVar("Made")


class Asked(Protocol):
    """Answers examples, from any thread. The future raises Overloaded if the request was not taken.

    `processes` are the ids of the other processes on this machine that do the work.
    """

    processes: tuple[int, ...]

    def submit(self, index: int, wait: bool = False) -> Future[Any]:
        """Return a future with the answer to example `index`. With `wait`, block while the queue is full."""
        ...


class RequestCache(Generic[Made]):
    """A cache of what `make` makes of each example. Scoring fills it before any load, so that no load waits for it.

    Once the cached values take MOST_BYTES, by their `size`, the rest is made each time.
    """

    def __init__(self, make: Callable[[int], Made], size: Callable[[Made], int]) -> None:
        self._make, self._size, self._made, self._bytes = make, size, dict[int, Made](), 0

    def __getitem__(self, index: int) -> Made:
        if index in self._made:
            return self._made[index]
        made = self._make(index)
        if self._bytes < MOST_BYTES:
            self._made[index] = made
            self._bytes += self._size(made)
        return made


class Local:
    """A model in this process, asked through `batcher`."""

    processes: tuple[int, ...] = ()

    def __init__(self, examples: Examples, batcher: Batcher) -> None:
        self._batcher = batcher
        self._requests = RequestCache(examples.request, lambda made: sum(array.nbytes for array in made.values()))

    def submit(self, index: int, wait: bool = False) -> Future[Any]:
        """See `Asked`."""
        return self._batcher.submit(self._requests[index], wait)
