"""A graph that reads the clock itself, before and after what is timed: what it takes to call a graph is not in it.

A call takes hundreds of microseconds, of which no two are alike; an operation on a few numbers takes one. A reading of
the clock takes tens, which hardly differ: two in turn tell how long, and that is taken off.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from functools import cache
from statistics import median
from typing import Any

import tensorflow as tf

REMEMBERED = 101  # readings in turn, of which the median is taken off
LEAST = 1e-7  # seconds, where something takes no longer than a reading

Values = list[Any]
Act = Callable[[Values], Values]


class Clocked:
    """Something done `repeats` times in sequence in one graph, between two readings of the clock.

    `ready` makes off the clock what it is done with, out of what the graph is given. Nobody else has that, so that an
    operation may write its result in its place, as it may within a model.
    """

    def __init__(self, ready: Act, act: Act, repeats: int, given: Values, device: str) -> None:
        self.ready, self.act, self.repeats, self.device = ready, act, repeats, device
        self.readings: list[float] = []
        self.function = tf.function(self._graph, autograph=False).get_concrete_function(given)

    def seconds(self, given: Values) -> float:
        """Once, the mean of the repeats.

        Run as an operation, which is quicker than to call the function, of which TensorFlow checks what it is given.
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
        """What is made, all of it: TensorFlow would leave out whatever nobody wants.

        What follows waits on identities of it: TensorFlow joins no operation that another waits on but does not use.
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
    """What lay between the last readings in turn, of all graphs on a device."""
    return deque(maxlen=REMEMBERED)
