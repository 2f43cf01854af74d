"""What the host does in a step of TensorFlow beside its graphs: Python around them, and calling them."""

from __future__ import annotations

import time
from statistics import median
from typing import Any
from unittest import mock

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction

from suite.probe.workload import Workload

EMPTY_CALLS = 101


def between(workload: Workload, times: int) -> float:
    """Seconds of a step without its graphs, but with what a graph takes to be called; the least of so many times."""
    call, inside = ConcreteFunction._call_flat, list[float]()

    def timed_call(*args: Any, **keywords: Any) -> Any:
        began = time.perf_counter()
        result = call(*args, **keywords)
        inside.append(time.perf_counter() - began)
        return result

    empty, found = empty_call(), list[float]()
    with mock.patch.object(ConcreteFunction, "_call_flat", timed_call):
        for _ in range(times):
            workload.ready(1)
            inside.clear()
            began = time.perf_counter()
            workload.run(1)
            whole = time.perf_counter() - began
            found.append(whole - sum(max(each - empty, 0.0) for each in inside))
    return max(min(found), 0.0)


def empty_call() -> float:
    """Seconds to call a graph that does nothing, the median of many."""
    nothing, value, found = tf.function(tf.identity), tf.ones(()), list[float]()
    for _ in range(EMPTY_CALLS):
        began = time.perf_counter()
        nothing(value)
        found.append(time.perf_counter() - began)
    return median(found)
