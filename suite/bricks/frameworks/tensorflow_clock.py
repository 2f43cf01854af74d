"""A graph that reads the clock before and after what is timed, so that calling the graph is not timed.

A call takes hundreds of microseconds and varies; an operation on a few numbers takes one microsecond. A reading of the
clock takes tens and hardly varies: two readings in a row tell how long it takes, and that is subtracted.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from functools import cache
from statistics import median
from typing import Any

import tensorflow as tf

REMEMBERED = 101  # pairs of readings in a row, whose median interval is subtracted
LEAST = 1e-7  # seconds, if something takes no longer than a reading

Values = list[Any]
Act = Callable[[Values], Values]


class Clocked:
    """Something done `repeats` times in sequence in one graph, between two readings of the clock.

    `ready` makes the inputs of `act` from the graph's, untimed. Nothing else uses them, so that an operation may write
    its result in their place, as it may within a model.
    """

    def __init__(self, ready: Act, act: Act, repeats: int, given: Values, device: str) -> None:
        self.ready, self.act, self.repeats, self.device = ready, act, repeats, device
        self.readings: list[float] = []
        self.function = tf.function(self._graph, autograph=False).get_concrete_function(given)

    def seconds(self, given: Values) -> float:
        """Run the graph once and return the mean seconds of a repeat.

        It runs as an operation: calling the function is slower, because TensorFlow then checks the inputs.
        """
        self.readings.clear()
        handles = [getattr(each, "handle", each) for each in given]
        types = [each.dtype for each in self.function.outputs]
        tf.raw_ops.StatefulPartitionedCall(args=handles, Tout=types, f=self.function)
        first, start, end = self.readings
        empty = empty_seconds(self.device)
        empty.append(start - first)
        return max(end - start - median(empty), LEAST) / self.repeats

    def _graph(self, given: Values) -> Values:
        """Return every result, because TensorFlow would leave out what nobody uses.

        Each repeat waits on identities of the results before it, not on these: TensorFlow fuses no operation that
        another waits on without using it.
        """
        made = Values()
        every = [self.ready(given) for _ in range(self.repeats)]
        before = [self._reading([value for values in every for value in values if isinstance(value, tf.Tensor)])]
        before = [self._reading(before)]
        for values in every:
            with tf.control_dependencies(before):
                before = [tf.identity(each) if isinstance(each, tf.Tensor) else each for each in self.act(values)]
            made += [value for value in before if isinstance(value, tf.Tensor)]
        self._reading(before)
        return made

    def _reading(self, after: Values) -> Any:
        with tf.control_dependencies(after), tf.device("/CPU:0"):
            return tf.numpy_function(self._read, [], [])

    def _read(self) -> tuple[()]:
        if "GPU" in self.device:
            tf.test.experimental.sync_devices()
        self.readings.append(time.perf_counter())
        return ()


@cache
def empty_seconds(device: str) -> deque[float]:
    """The seconds between the last pairs of readings in a row, of all graphs on a device."""
    return deque(maxlen=REMEMBERED)
