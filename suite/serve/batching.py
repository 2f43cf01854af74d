"""Dynamic batching: requests that wait at the same time are answered together."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from time import monotonic
from typing import Any, NamedTuple

from suite.serve.model import Request


class Overloaded(Exception):
    """The queue is full; this request was not taken."""


Answers = Callable[[Sequence[Request]], list[Any]]


class _Waiting(NamedTuple):
    request: Request
    future: Future[Any]
    until: float  # the time at which it has waited for others long enough


class Batcher:
    """Answers requests in order of arrival, at most `batch` at a time, by the function that `make` returns.

    Both are called in one thread: PyTorch records CUDA graphs only in the thread in which it began to. A request waits
    at most `wait_s` for others, and at most `queue` requests wait. If a batch fails, its requests are answered one by
    one, so that only those that cannot be answered fail. Raises what `make` raises.
    """

    def __init__(self, make: Callable[[], Answers], batch: int, wait_s: float, queue: int) -> None:
        self.batches, self.taken, self.shed = 0, 0, 0
        self._batch, self._wait_s, self._queue = min(batch, queue), wait_s, queue
        self._waiting: deque[_Waiting] = deque()
        self._change = threading.Condition()
        made: Future[Answers] = Future()
        threading.Thread(target=self._work, args=(make, made), name="batcher", daemon=True).start()
        self._answers = made.result()

    def submit(self, request: Request, wait: bool = False) -> Future[Any]:
        """Return a future with the answer. With a full queue it fails with Overloaded, or with `wait` this blocks."""
        future: Future[Any] = Future()
        with self._change:
            if wait:
                self._change.wait_for(lambda: len(self._waiting) < self._queue)
            if len(self._waiting) < self._queue:
                self._waiting.append(_Waiting(request, future, monotonic() + self._wait_s))
                self._change.notify_all()
                return future
            self.shed += 1
        future.set_exception(Overloaded(f"{self._queue} requests wait"))
        return future

    def _work(self, make: Callable[[], Answers], made: Future[Answers]) -> None:
        try:
            made.set_result(make())
        except BaseException as error:
            made.set_exception(error)
            return
        while True:
            batch = self._gathered()
            self.batches, self.taken = self.batches + 1, self.taken + len(batch)
            self._answer([each for each in batch if each.future.set_running_or_notify_cancel()])

    def _gathered(self) -> list[_Waiting]:
        """Wait for the next batch."""
        with self._change:
            self._change.wait_for(lambda: self._waiting)
            left = self._waiting[0].until - monotonic()
            self._change.wait_for(lambda: len(self._waiting) >= self._batch, max(left, 0.0))
            batch = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
            self._change.notify_all()
            return batch

    def _answer(self, batch: Sequence[_Waiting]) -> None:
        try:
            answers = self._answers([each.request for each in batch]) if batch else []
        except Exception as error:
            if len(batch) == 1:
                batch[0].future.set_exception(error)
            else:
                for each in batch:
                    self._answer([each])
        else:
            for each, answer in zip(batch, answers, strict=True):
                each.future.set_result(answer)
