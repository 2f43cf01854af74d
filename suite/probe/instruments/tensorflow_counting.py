"""Count operations as TensorFlow executes them, run its graphs unfused, and copy in the device's memory."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from math import prod
from typing import Any
from unittest import mock

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function.autograph_util import py_func_from_autograph
from tensorflow.python.eager.polymorphic_function.polymorphic_function import (
    Function,
    _FrequentTracingDetectorManager,
)
from tensorflow.python.framework import op_callbacks, op_def_registry

from suite.errors import UserError
from suite.harness.implementation import Device, unseen
from suite.probe.instruments.tensorflow_attributes import plain

LIBRARIES = "'tensorflow[and-cuda]' brings CUDA's, into an environment without PyTorch: docs/adding-a-machine.md"
MADE_APART: weakref.WeakSet[Function] = weakref.WeakSet()
DTYPES = {"fp32": tf.float32, "tf32": tf.float32, "bf16": tf.bfloat16, "fp16": tf.float16}


def device_name(device: Device) -> str:
    """TensorFlow's name of the device; GPU memory is then taken only as needed, since others are looked at beside it.

    Raises UserError for a GPU if TensorFlow sees none.
    """
    for gpu in tf.config.list_physical_devices("GPU"):
        with suppress(RuntimeError):  # once it is in use
            tf.config.experimental.set_memory_growth(gpu, True)
    if device.kind == "gpu" and not tf.config.list_physical_devices("GPU"):
        raise unseen(f"TensorFlow {tf.__version__}", LIBRARIES)
    return "/GPU:0" if device.kind == "gpu" else "/CPU:0"


def number_type(device: Device) -> tf.DType:
    """TensorFlow's type for the device's precision; lets a GPU multiply fp32 as tf32 in precision tf32 only.

    Raises UserError for a precision of recipes, such as those of 8 bits.
    """
    if device.precision not in DTYPES:
        raise UserError(f"precision={device.precision}: TensorFlow has no plain operations in it")
    tf.config.experimental.enable_tensor_float_32_execution(device.precision == "tf32")
    return DTYPES[device.precision]


def arithmetic() -> Callable[[], None]:
    """See `Instruments.arithmetic`."""
    now = tf.config.experimental.tensor_float_32_execution_enabled()
    return partial(tf.config.experimental.enable_tensor_float_32_execution, now)


@contextmanager
def apart() -> Iterator[None]:
    """See `Instruments.apart`: no XLA, no rewriting of graphs, and functions within a function are part of it.

    TensorFlow does not count how often it traces, since each build has to be traced and it would warn. Random numbers
    come from the generator that TensorFlow chooses, because XLA's may have no kernel outside XLA.
    """
    function, dropout = tf.function, tf.nn.experimental.stateless_dropout
    called = Function.__call__
    options = tf.config.optimizer.get_experimental_options()

    def plain_function(func: Any = None, *args: Any, jit_compile: Any = None, **keywords: Any) -> Any:
        if func is None:
            return partial(plain_function, **keywords)
        made = function(func, *args, **keywords)
        MADE_APART.add(made)
        return made

    def joined_call(self: Any, *args: Any, **keywords: Any) -> Any:
        if (self in MADE_APART or self._jit_compile) and tf.inside_function():
            return py_func_from_autograph(self.python_function)(*args, **keywords)
        return called(self, *args, **keywords)

    def plain_dropout(*args: Any, **keywords: Any) -> Any:
        return dropout(*args, **{name: value for name, value in keywords.items() if name != "rng_alg"})

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        with (
            mock.patch.object(tf, "function", plain_function),
            mock.patch.object(Function, "__call__", joined_call),
            untold_tracing(),
            mock.patch.object(tf.nn.experimental, "stateless_dropout", plain_dropout),
        ):
            yield
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False, **options})


def untold_tracing() -> AbstractContextManager[Any]:
    """Context in which TensorFlow does not count how often it traces a function, so that it does not warn."""
    return mock.patch.object(_FrequentTracingDetectorManager, "called_with_tracing")


@contextmanager
def told_of_operations(callback: Callable[..., object]) -> Iterator[None]:
    """Context in which TensorFlow's op callbacks, as its debugger has them, give `callback` each operation made.

    Its arguments are the kind, inputs, attributes, outputs, name and graph; an operation that is executed has no graph.
    """

    def told(kind: Any, inputs: Any, attributes: Any, outputs: Any, op_name: Any = None, graph: Any = None) -> object:
        kind, name = (each.decode() if isinstance(each, bytes) else each for each in (kind, op_name))
        return callback(kind, inputs, attributes, outputs, name, graph)

    op_callbacks.add_op_callback(told)
    try:
        yield
    finally:
        op_callbacks.remove_op_callback(told)


@contextmanager
def run_eagerly(told: Callable[..., object]) -> Iterator[None]:
    """Context in which graphs are run operation by operation, and `told` is given each.

    Raises UserError for a ConcreteFunction, which TensorFlow runs as one all the same.
    """

    def told_each(kind: str, *others: Any) -> object:
        if op_def_registry.get(kind) is None:
            raise UserError(
                f"a step calls the ConcreteFunction {kind}, which runs as one operation: call its tf.function instead"
            )
        return told(kind, *others)

    tf.config.run_functions_eagerly(True)
    try:
        with told_of_operations(told_each):
            yield
    finally:
        tf.config.run_functions_eagerly(False)


def flops(call: Callable[[], object]) -> dict[str, int | None]:
    """See `Instruments.flops`; counts the operations that TensorFlow executes when its graphs run eagerly."""
    found: dict[str, int | None] = {}

    def operation(kind: str, inputs: Sequence[Any], attributes: Sequence[Any], outputs: Sequence[Any], *_: Any) -> None:
        if multiplies(kind):
            count, before = counted(kind, inputs, attributes, outputs), found.get(kind, 0)
            found[kind] = None if count is None or before is None else before + count

    with run_eagerly(operation):
        call()
    return found


Shape = tuple[int, ...]


def multiplies(kind: str) -> bool:
    """Whether an operation takes matrix products or convolutions, by its kind."""
    return kind in PRODUCTS or MULTIPLIES.search(kind) is not None


def counted(kind: str, inputs: Sequence[Any], attributes: Sequence[Any], outputs: Sequence[Any]) -> int | None:
    """Floating-point operations of one that multiplies tensors of known shapes; None if its kind has no count."""
    if kind not in PRODUCTS:
        return None
    return 2 * PRODUCTS[kind]([tuple(each.shape) for each in inputs], tuple(outputs[0].shape), plain(attributes))


def _product(inputs: Sequence[Shape], out: Shape, attributes: Mapping[str, Any]) -> int:
    transposed = attributes.get("transpose_a", attributes.get("adj_x"))
    return prod(out) * inputs[0][-2 if transposed else -1]


def _convolution(inputs: Sequence[Shape], out: Shape, attributes: Mapping[str, Any], axes: int = -1) -> int:
    """Filters are [..., in, out], or depthwise [height, width, in, multiplier]: the first `axes` count."""
    return prod(out) * prod(inputs[1][:axes])


def _to_filters(inputs: Sequence[Shape], out: Shape, attributes: Mapping[str, Any], axes: int = -1) -> int:
    """The gradient by filters, from the gradient of the output, which is the last input."""
    return prod(inputs[2]) * prod(out[:axes])


def _to_input(inputs: Sequence[Shape], out: Shape, attributes: Mapping[str, Any], axes: int = -1) -> int:
    """The gradient by the input, from the filters and the gradient of the output."""
    return prod(inputs[2]) * prod(inputs[1][:axes])


def _einsum(inputs: Sequence[Shape], out: Shape, attributes: Mapping[str, Any]) -> int:
    """0 for a single operand: nothing is multiplied."""
    operands = labelled(attributes["equation"], inputs)
    return prod(sizes(operands).values()) if len(operands) > 1 else 0


def labelled(equation: str, inputs: Sequence[Shape]) -> list[dict[str, int]]:
    """The length of each operand's axes in an einsum, by label; each axis that "..." stands for gets its own label."""
    operands = re.split(",|->", equation)[: len(inputs)]
    return [
        dict(zip(_labels(each, len(shape)), shape, strict=True)) for each, shape in zip(operands, inputs, strict=True)
    ]


def sizes(operands: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The length of each label's axis; an axis of length 1 is as long as the others of its label."""
    found: dict[str, int] = {}
    for each in operands:
        found |= {label: size for label, size in each.items() if size != 1 or label not in found}
    return found


def _labels(subscripts: str, rank: int) -> list[str]:
    """The label of each axis; one that "..." stands for is labelled with its place from the last."""
    before, _, after = subscripts.partition("...")
    dots = rank - len(before) - len(after)
    return [*before, *(f"...{place}" for place in range(dots, 0, -1)), *after]


# Multiplications that an operation takes, by its kind
PRODUCTS: dict[str, Callable[[Sequence[Shape], Shape, Mapping[str, Any]], int]] = {
    "MatMul": _product,
    "BatchMatMul": _product,
    "BatchMatMulV2": _product,
    "BatchMatMulV3": _product,
    "Einsum": _einsum,
    "Conv2D": _convolution,
    "Conv2DBackpropFilter": _to_filters,
    "Conv2DBackpropInput": _to_input,
    "Conv3D": _convolution,
    "Conv3DBackpropFilterV2": _to_filters,
    "Conv3DBackpropInputV2": _to_input,
    "DepthwiseConv2dNative": partial(_convolution, axes=2),
    "DepthwiseConv2dNativeBackpropFilter": partial(_to_filters, axes=2),
    "DepthwiseConv2dNativeBackpropInput": partial(_to_input, axes=2),
}
MULTIPLIES = re.compile(
    "MatMul|Conv(?!ert)|RNN|LSTM|GRU|XlaDot"
)  # found in the kinds that multiply, whether they have a count or not


def copy(size: int, device: Device) -> Callable[[int], None]:
    """See `Instruments.copy`: adds two thirds as much in place, which moves three arrays where a copy moves two.

    TensorFlow assigns by reference and copies into fresh memory, whose pages the system has to clear first.
    """
    with tf.device(device_name(device)):
        source, target = tf.ones(size // 6), tf.Variable(tf.zeros(size // 6))

    def copied(times: int) -> None:
        with tf.device(device_name(device)):
            for _ in range(times):
                target.assign_add(source)
            target[0].numpy()

    return copied
