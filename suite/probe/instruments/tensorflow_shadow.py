"""Steps in TensorFlow with a shadow in float64: each operation is executed again on the shadows of its inputs.

The step runs eagerly; its shadow runs in a thread of its own, where no tape of the step records. A variable's shadow is
a variable, so that operations read and write it as they do the original.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context, core, execute

from suite.harness.implementation import Device
from suite.probe.instruments.tensorflow_attributes import double, exact, whole
from suite.probe.instruments.tensorflow_counting import apart, device_name, run_eagerly
from suite.probe.instruments.tensorflow_memory import built
from suite.probe.instruments.tensorflow_watch import identity
from suite.probe.shadow import STEPS, Distance, distances
from suite.probe.workload import Workload

HELD = (tf.resource, tf.variant)
DRAWS = ("Random", "Stateless", "Multinomial")  # in the names of operations whose values are drawn


class Shadow:
    """Executes each operation again on shadows; `refused` are those without float64, taken in the step's own types."""

    def __init__(self, where: str, worker: ThreadPoolExecutor, held: Sequence[tf.Variable]) -> None:
        self.where, self.worker = where, worker
        with tf.device(where):
            self.variables = {id(each): tf.Variable(double(each.value())) for each in held}
        self.shadows = {each.handle._id: self.variables[id(each)].handle for each in held}  # by the tensor's number
        self.refused: set[str] = set()

    def __call__(
        self, kind: str, inputs: Sequence[Any], attributes: Any, outputs: Sequence[Any], name: Any, graph: Any
    ) -> None:
        """Follow an operation that was executed."""
        if graph is None:
            self.worker.submit(self._follow, kind, inputs, attributes, outputs).result()

    def _follow(self, kind: str, inputs: Sequence[Any], attributes: Sequence[Any], outputs: Sequence[Any]) -> None:
        strange = any(each.dtype in HELD and each._id not in self.shadows for each in inputs)
        own = strange or any(each in kind for each in DRAWS)
        made = outputs if own else self._again(kind, inputs, whole(kind, attributes), len(outputs))
        for each, shadow in zip(outputs, made or (), strict=True):
            self.shadows[each._id] = double(shadow)
            weakref.finalize(each, self.shadows.pop, each._id)

    def _again(self, kind: str, inputs: Sequence[Any], attributes: tuple[Any, ...], outputs: int) -> Sequence[Any]:
        given = [self._of(each) for each in inputs]
        with tf.device(self.where):
            try:
                return self._execute(kind, given, exact(kind, attributes), outputs)
            except (tf.errors.OpError, TypeError, ValueError):
                self.refused.add(kind)
                single = [tf.cast(each, own.dtype) for each, own in zip(given, inputs, strict=True)]
                return self._execute(kind, single, attributes, outputs)

    def _execute(self, kind: str, inputs: Sequence[Any], attributes: tuple[Any, ...], outputs: int) -> Sequence[Any]:
        made: Sequence[Any] = execute.execute(kind.encode(), outputs, inputs, attributes, context.context())
        return made

    def _of(self, tensor: tf.Tensor) -> tf.Tensor:
        return self.shadows.get(tensor._id, double(tensor))


def shadowed(build: Callable[[], Workload], device: Device) -> Distance:
    """See `Instruments.shadowed`."""
    watched, held = built(build, device)
    workload = watched.workload
    workload.ready(max(STEPS))
    parameters = {number for owned in watched.places.parameters.values() for number in owned}
    trained = {str(identity(each)): each for each in held if identity(each) in parameters}
    with apart(), ThreadPoolExecutor(1) as worker:
        shadow = Shadow(device_name(device), worker, held)
        with read_by_python(), run_eagerly(shadow):
            after = distances(
                lambda: workload.run(1),
                found=lambda: {name: _values(each) for name, each in trained.items()},
                exact=lambda: {name: _values(shadow.variables[id(each)]) for name, each in trained.items()},
            )
    return Distance(after, tuple(sorted(shadow.refused)))


def read_by_python() -> AbstractContextManager[Any]:
    """Context in which Python reads the variables given to operations: the fast path in C++ calls no callback."""
    return mock.patch.object(pywrap_tfe, "TFE_Py_FastPathExecute", side_effect=core._FallbackException)


def _values(variable: tf.Variable) -> np.ndarray:
    values: np.ndarray = tf.cast(variable, tf.float64).numpy()
    return values
