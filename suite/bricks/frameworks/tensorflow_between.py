"""Time the host's work in a step of TensorFlow besides its graphs: Python around them, and calling them."""

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
    """Seconds of a step outside its graphs, including the cost of calling these; the least of `times` tries."""
    call, inside = ConcreteFunction._call_flat, list[tuple[ConcreteFunction, float]]()

    def timed_call(graph: ConcreteFunction, *args: Any, **keywords: Any) -> Any:
        began = time.perf_counter()
        result = call(graph, *args, **keywords)
        inside.append((graph, time.perf_counter() - began))
        return result

    steps = list[tuple[float, list[tuple[ConcreteFunction, float]]]]()
    with mock.patch.object(ConcreteFunction, "_call_flat", timed_call):
        for _ in range(times):
            workload.ready(1)
            inside.clear()
            began = time.perf_counter()
            workload.run(1)
            steps.append((time.perf_counter() - began, list(inside)))
    empty = {graph: empty_call(graph) for graph in {graph for _, called in steps for graph, _ in called}}
    least = min(whole - sum(max(each - empty[graph], 0.0) for graph, each in called) for whole, called in steps)
    return max(least, 0.0)


def empty_call(graph: ConcreteFunction) -> float:
    """Seconds to call a graph that takes the same inputs and variables as this one but does nothing; a median."""

    def capture(value: Any) -> Any:
        here = tf.compat.v1.get_default_graph()
        for each in graph.captured_inputs:
            here.capture(each)
        for each in graph.graph.variables:
            here.watch_variable(each)
        return tf.identity(value)

    with tf.device("CPU:0"):  # where bricks are made, even if there are other devices
        nothing, value, found = tf.function(capture, autograph=False), tf.ones(()), list[float]()
        nothing(value)
        for _ in range(EMPTY_CALLS):
            began = time.perf_counter()
            nothing(value)
            found.append(time.perf_counter() - began)
    return median(found)
