"""Counts the floating-point operations of matrix products and convolutions that a call takes, in each framework."""

import re
from collections.abc import Callable
from math import prod


def torch(call: Callable[[], object]) -> int:
    """As PyTorch counts them."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def tensorflow(call: Callable[[], object]) -> int:
    """Of the operations that TensorFlow executes, its graphs run eagerly."""
    import tensorflow as tf
    from tensorflow.python.framework import op_callbacks

    counted = []

    def operation(kind, inputs, attributes, outputs, name=None, graph=None):
        kind = kind.decode() if isinstance(kind, bytes) else kind
        if kind in PRODUCTS:
            named = dict(zip(attributes[::2], attributes[1::2], strict=True))
            counted.append(2 * PRODUCTS[kind](*(tuple(x.shape) for x in (*inputs[:2], outputs[0])), named))

    tf.config.run_functions_eagerly(True)
    op_callbacks.add_op_callback(operation)
    try:
        call()
    finally:
        op_callbacks.remove_op_callback(operation)
        tf.config.run_functions_eagerly(False)
    return sum(counted)


def _product(left, right, out, attributes):
    transposed = attributes.get("transpose_a", attributes.get("adj_x"))
    return prod(out) * left[-2 if transposed else -1]


def _convolution(images, weights, out, attributes):
    return prod(out) * prod(weights[:-1])


def _einsum(left, right, out, attributes):
    first, second, _ = re.split(",|->", attributes["equation"])
    return prod({**dict(zip(first, left, strict=True)), **dict(zip(second, right, strict=True))}.values())


PRODUCTS = {
    "MatMul": _product,
    "BatchMatMulV2": _product,
    "Conv2D": _convolution,
    "Einsum": _einsum,
}
COUNTERS = {"torch": torch, "tensorflow": tensorflow}
