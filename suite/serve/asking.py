"""Who is asked for the answers to examples: a model of this process, or, as `suite.serve.web.Client`, a server."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar

from suite.serve.batching import Batcher
from suite.serve.model import Examples

MOST_BYTES = 1 << 30  # of requests that are kept
Made = TypeVar("Made")


class Asked(Protocol):
    """Answers, from any thread, with a future that raises Overloaded where the request was not taken.

    `processes` are those of this machine that do so beside this one.
    """

    processes: tuple[int, ...]

    def submit(self, index: int, wait: bool = False) -> Future[Any]:
        """The answer to the example of that number. One that may `wait` does so where a queue is full."""
        ...


class Kept(Generic[Made]):
    """What `make` makes of each example, made once: for the quality, before any load, whose time it is not to take.

    Where `size` in bytes of all comes to MOST_BYTES, the rest is made each time.
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
    """The model of this process whose requests `batcher` gathers."""

    processes: tuple[int, ...] = ()

    def __init__(self, examples: Examples, batcher: Batcher) -> None:
        self._batcher = batcher
        self._requests = Kept(examples.request, lambda made: sum(array.nbytes for array in made.values()))

    def submit(self, index: int, wait: bool = False) -> Future[Any]:
        """See `Asked`."""
        return self._batcher.submit(self._requests[index], wait)
