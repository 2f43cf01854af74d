"""Judge a step's operations in TensorFlow: execute each again on its inputs, in float64, repeated, on other threads.

The step runs eagerly. Operations are executed again in a thread of their own, where no tape of the step records.
Another number of threads takes a process of its own, because TensorFlow's is fixed once it has computed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, TypeGuard

import numpy as np
import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import op_def_registry, ops

from suite.harness.implementation import Device
from suite.measure.cpus import usable_cpus
from suite.probe.instruments.tensorflow_attributes import double, whole
from suite.probe.instruments.tensorflow_attributes import exact as exact_attributes
from suite.probe.instruments.tensorflow_counting import apart, device_name, run_eagerly
from suite.probe.instruments.tensorflow_watch import SAME, shapes_of
from suite.probe.judging import RANDOM, REFUSED, REPEATS, SEED, Errors, Judged, Output, errors, unjudged, unlike
from suite.probe.workload import Workload
from suite.store.processes import Pool

HANDLES = "of a variable or another resource"
UNCHANGED = SAME | {"Const"}  # operations that compute nothing
THREADS = "TF_NUM_INTRAOP_THREADS"

Arrays = list[np.ndarray]


class Call:
    """A call of an operation that can be made again, here or in another process."""

    def __init__(self, kind: str, inputs: Sequence[Any], attributes: Sequence[Any], outputs: int) -> None:
        self.kind, self.outputs = kind, outputs
        self.inputs = [each.numpy() for each in inputs]
        self.attributes = whole(kind, attributes)

    def again(self, exact: bool = False, differentiated: bool = False) -> tuple[Arrays, list[np.ndarray | None]]:
        """Repeat the call; return its outputs, in float64 if `exact`, and if `differentiated` its inputs' gradients."""
        inputs = [double(tf.constant(each)) if exact else tf.constant(each) for each in self.inputs]
        attributes = exact_attributes(self.kind, self.attributes) if exact else self.attributes
        given = [each for each in inputs if each.dtype.is_floating]
        with tf.GradientTape() as tape:
            if differentiated:
                tape.watch(given)
            made = execute.execute(self.kind.encode(), self.outputs, inputs, attributes, context.context())
            if differentiated:
                execute.record_gradient(self.kind, inputs, attributes, made)
        gradients = []
        if differentiated:
            ends = [each for each in made if each.dtype.is_floating]
            random = np.random.default_rng(SEED)
            draws = [tf.cast(random.standard_normal(each.shape), tf.bfloat16) for each in ends]
            against = [tf.cast(draw, each.dtype) for draw, each in zip(draws, ends, strict=True)]
            gradients = [_values(each) for each in tape.gradient(ends, given, against)]
        return [each.numpy() for each in made], gradients


class Judge:
    """Judges the first call of each operation with its shapes and types."""

    def __init__(self, where: str, worker: ThreadPoolExecutor, elsewhere: Pool) -> None:
        self.where, self.worker, self.elsewhere = where, worker, elsewhere
        self.found: dict[tuple[str, ...], Judged] = {}

    def __call__(
        self, kind: str, inputs: Sequence[Any], attributes: Any, outputs: Sequence[Any], name: Any, graph: Any
    ) -> None:
        """Judge an operation that was executed, unless one of its kind, shapes and types was judged before."""
        shapes = shapes_of(inputs)
        key = (kind, shapes, *(each.dtype.name for each in inputs))
        if graph is not None or kind in UNCHANGED or key in self.found:
            return
        if any(each.dtype in (tf.resource, tf.variant) for each in (*inputs, *outputs)):
            self.found[key] = Judged(kind, shapes, HANDLES)
            return
        recorded = not pywrap_tfe.TFE_Py_TapeSetIsEmpty()
        call = Call(kind, inputs, attributes, len(outputs))
        self.found[key] = self.worker.submit(self.judged, shapes, call, recorded).result()

    def judged(self, shapes: str, call: Call, recorded: bool) -> Judged:
        """Judge a call, with its gradient if a tape had `recorded` it."""
        if op_def_registry.get(call.kind).is_stateful or "Random" in call.kind:
            return Judged(call.kind, shapes, RANDOM)
        with tf.device(self.where):
            made, _ = call.again()
            kinds = {each.dtype.name for each in made if _judgeable(each)}
            if why := unjudged(kinds):
                return Judged(call.kind, shapes, why)
            differentiated = recorded and _has_gradient(call.kind)
            try:
                exact, exact_gradients = call.again(True, differentiated)
            except (tf.errors.OpError, TypeError, ValueError):
                return Judged(call.kind, shapes, REFUSED)
            gradients = call.again(False, True)[1] if differentiated else []
            repeats = all(_same(made, call.again()[0]) for _ in range(REPEATS - 1))
        threads = None
        if self.where.startswith("/CPU"):
            threads = _same(made, self.elsewhere.submit(_again, call).result())
        kinds_ = " ".join(sorted(kinds))
        return Judged(
            call.kind, shapes, None, kinds_, _errors(made, exact), _errors(gradients, exact_gradients), repeats, threads
        )


def _again(call: Call) -> list[Any]:
    """Make a call again in another process, on its CPU."""
    with tf.device("CPU:0"):
        return call.again()[0]


def judged(build: Callable[[], Workload], device: Device) -> list[Judged]:
    """See `Instruments.judged`."""
    here = tf.config.threading.get_intra_op_parallelism_threads() or int(os.environ.get(THREADS, 0)) or usable_cpus()
    with ExitStack() as stack:
        stack.enter_context(apart())
        worker = stack.enter_context(ThreadPoolExecutor(1))
        set_threads = tf.config.threading.set_intra_op_parallelism_threads
        elsewhere = stack.enter_context(Pool(1, "spawn", set_threads, unlike(here)))
        judge = Judge(device_name(device), worker, elsewhere)
        workload = build()
        workload.ready(1)
        with run_eagerly(judge):
            workload.run(1)
    return list(judge.found.values())


def _has_gradient(kind: str) -> bool:
    try:
        return ops.gradient_registry.lookup(kind) is not None
    except LookupError:
        return False


def _values(gradient: Any) -> np.ndarray | None:
    return None if gradient is None else tf.convert_to_tensor(gradient).numpy()


def _errors(made: Sequence[np.ndarray | None], exact: Sequence[np.ndarray | None]) -> Errors | None:
    pairs = zip(made, exact, strict=True)
    return errors([Output(_plain(a), _plain(b), a.dtype.name) for a, b in pairs if _judgeable(a) and b is not None])


def _judgeable(array: np.ndarray | None) -> TypeGuard[np.ndarray]:
    return array is not None and array.size > 0 and tf.as_dtype(array.dtype).is_floating


def _plain(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64).ravel()


def _same(some: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> bool:
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(some, others, strict=True) if _judgeable(a))
