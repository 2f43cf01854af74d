"""Single operations in TensorFlow, on noise, each executed as soon as it is called."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil, prod
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from suite.errors import UserError
from suite.harness.implementation import Device
from suite.probe.instruments.tensorflow_counting import device_name, number_type, untold_tracing
from suite.probe.kernels.problems import (
    BY_INPUT,
    FORWARD,
    Convolution,
    MatrixProduct,
    Problem,
    Recurrent,
    SparseProduct,
)
from suite.probe.workload import Workload

NOISE = 1 << 20  # numbers that are drawn; a larger array repeats them

Call = Callable[[], object]
Noise = Callable[..., tf.Tensor]


class Kernel(Workload):
    """One operation over and over."""

    samples = 1

    def __init__(self, call: Call, device: str) -> None:
        self.call, self.device = call, device.strip("/")

    def run(self, steps: int) -> None:
        """See `Workload`. Raises UserError where TensorFlow took the host for an operation that the device lacks."""
        with tf.device(self.device):
            for _ in range(steps):
                made = self.call()
        tf.test.experimental.sync_devices()
        for each in tf.nest.flatten(made):
            if not each.device.endswith(self.device):
                raise UserError(f"TensorFlow has no kernel of it in {each.dtype.name} for {self.device}")


def kernel(problem: Problem, device: Device) -> Workload:
    """See `Instruments.kernel`."""
    dtype = number_type(device)

    def noise(*shape: int) -> tf.Tensor:
        drawn = tf.cast(tf.random.normal([min(NOISE, prod(shape))]), dtype)
        return tf.reshape(tf.tile(drawn, [ceil(prod(shape) / len(drawn))])[: prod(shape)], shape)

    with tf.device(device_name(device)):
        match problem:
            case MatrixProduct():
                call = _product(problem, noise)
            case Convolution():
                call = _convolution(problem, noise)
            case Recurrent():
                call = _recurrent(problem, noise, dtype)
            case SparseProduct():
                call = _sparse(problem, noise)
            case _:
                raise UserError("TensorFlow's workers are to be set up before a process does anything else")
    return Kernel(call, device_name(device))


def _product(it: MatrixProduct, noise: Noise) -> Call:
    left, right = (noise(*shape) for shape in it.factors)
    first, second = it.transposed
    if it.batch > 1:
        return lambda: tf.raw_ops.BatchMatMulV2(x=left, y=right, adj_x=first, adj_y=second)
    return lambda: tf.raw_ops.MatMul(a=left, b=right, transpose_a=first, transpose_b=second)


def _convolution(it: Convolution, noise: Noise) -> Call:
    """Of images [batch, height, width, channels]; each channel by itself has separate operations in TensorFlow."""
    apart = it.groups == it.channels and it.groups > 1
    ops, kind = tf.raw_ops, "DepthwiseConv2dNative" if apart else "Conv2D"
    images = noise(it.batch, *it.size, it.channels)
    ends = (it.channels, it.filters // it.groups) if apart else (it.channels // it.groups, it.filters)
    filters = noise(*it.window, *ends)
    given = {
        "strides": [1, *it.stride, 1],
        "padding": "EXPLICIT",
        "explicit_paddings": [0, 0, *(each for around in it.padding for each in around), 0, 0],
        "dilations": [1, *it.dilation, 1],
    }
    if it.direction == FORWARD:
        return partial(getattr(ops, kind), input=images, filter=filters, **given)
    given["out_backprop"] = noise(it.batch, *it.out, it.filters)
    if it.direction == BY_INPUT:
        return partial(getattr(ops, f"{kind}BackpropInput"), input_sizes=tf.shape(images), filter=filters, **given)
    return partial(getattr(ops, f"{kind}BackpropFilter"), input=images, filter_sizes=tf.shape(filters), **given)


def _recurrent(it: Recurrent, noise: Noise, dtype: tf.DType) -> Call:
    layers: dict[str, Callable[..., Any]] = {
        "vanilla": partial(keras.layers.SimpleRNN, activation="relu"),
        "gru": keras.layers.GRU,
        "lstm": keras.layers.LSTM,
    }
    layer = layers[it.cell](
        it.hidden,
        return_sequences=True,
        use_bias=False,
        recurrent_initializer="glorot_uniform",  # an orthogonal matrix cannot be made in bf16
        dtype=dtype.name,
    )
    inputs = noise(it.batch, it.steps, 1)
    layer.build(inputs.shape)
    forward = tf.function(lambda values: layer(values))
    if it.direction == FORWARD:
        with untold_tracing():
            forward(inputs)
        return lambda: forward(inputs)
    with untold_tracing(), tf.GradientTape(persistent=True) as tape:
        outputs = forward(inputs)
    gradient = noise(*outputs.shape)
    return lambda: tape.gradient(outputs, layer.trainable_variables, output_gradients=gradient)


def _sparse(it: SparseProduct, noise: Noise) -> Call:
    ends, columns = it.places()
    places = np.stack([np.repeat(np.arange(it.m), np.diff(ends)), columns], axis=1)
    indices, shape = tf.constant(places, tf.int64), tf.constant((it.m, it.k), tf.int64)
    values, dense = noise(it.kept), noise(it.k, it.n)
    return lambda: tf.raw_ops.SparseTensorDenseMatMul(a_indices=indices, a_values=values, a_shape=shape, b=dense)


def algorithm(workload: Workload, device: Device) -> str | None:
    """See `Instruments.algorithm`: TensorFlow tells nothing of a single operation."""
    return None
