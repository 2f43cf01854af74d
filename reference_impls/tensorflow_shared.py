"""What the implementations in TensorFlow share, the twin of `torch_shared.py`: device, precision, seeds, states."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, Protocol

import keras
import numpy as np
import tensorflow as tf

from reference_impls import recipe
from reference_impls.precision import written_in
from reference_impls.trainer import Fed, Hyper, Trainer
from suite.harness.implementation import Device, unseen

keras.config.set_floatx("float32")  # whatever a keras.json says
keras.config.set_image_data_format("channels_last")
POLICIES = {"fp32": "float32", "tf32": "float32", "bf16": "mixed_bfloat16", "fp16": "mixed_float16"}
DTYPES = {"fp32": tf.float32, "tf32": tf.float32, "bf16": tf.bfloat16, "fp16": tf.float16}
LIBRARIES = "'tensorflow[and-cuda]' brings CUDA's, into an environment without PyTorch: docs/adding-a-machine.md"
# Keras's names of variables whose PyTorch names differ
NAMES = {
    "kernel": "weight",
    "gamma": "weight",
    "beta": "bias",
    "embeddings": "weight",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}


class Optimizer(Protocol):
    """What `state_dict` needs of an optimizer; see `tensorflow_optimizers.py`."""

    def moments(self) -> Mapping[str, Any]:
        """Variables by `<moment>/<path of the model's variable>`; Adam's count of steps as `updates`."""
        ...


def device_name(device: Device) -> str:
    """TensorFlow's name of the device. Raises UserError for a GPU if TensorFlow sees none."""
    if device.kind == "cpu":
        _sharing()  # if the machine has GPUs too: values without a stated device are made there
        return "/CPU:0"
    gpus()
    return "/GPU:0"


def gpus() -> list[Any]:
    """TensorFlow's GPUs. Raises UserError if it sees none: it would silently train on the CPU."""
    found = _sharing()
    if not found:
        raise unseen(f"TensorFlow {tf.__version__}", LIBRARIES)
    return found


def _sharing() -> list[Any]:
    """TensorFlow's GPUs, set to allocate memory only as needed and leave the rest to others, as PyTorch does."""
    found: list[Any] = tf.config.list_physical_devices("GPU")
    with suppress(RuntimeError):  # TensorFlow is already initialised
        for each in found:
            tf.config.experimental.set_memory_growth(each, True)
    return found


def dtype(device: Device) -> tf.DType:
    """TensorFlow's dtype for the device's precision. Also lets GPUs multiply fp32 as tf32 in precision tf32 alone.

    Raises UserError for a precision that the reference does not train in.
    """
    written_in("tensorflow", device, DTYPES)
    tf.config.experimental.enable_tensor_float_32_execution(device.precision == "tf32")
    return DTYPES[device.precision]


def policy(device: Device) -> keras.DTypePolicy:
    """The dtype policy of Keras layers: variables in fp32, computation in the device's precision. See `dtype`."""
    dtype(device)
    return keras.DTypePolicy(POLICIES[device.precision])


def with_bias(x: tf.Tensor, bias: Any) -> tf.Tensor:
    """`x` [..., C] plus `bias` [C], in the type of `x`; the gradient of the bias is summed in float32.

    tf.nn.bias_add, which Keras uses, sums it in the type of `x` on a CPU: in bf16 a sum of 4,096 terms loses half.
    Other operators do so in fp16.
    """
    made: tf.Tensor = _biased(x, tf.cast(bias, x.dtype))
    return made


def _biased_and_gradient(x: tf.Tensor, bias: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
    def backward(gradient: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        summed = tf.reduce_sum(tf.cast(gradient, tf.float32), list(range(gradient.shape.rank - 1)))
        return gradient, tf.cast(summed, bias.dtype)

    return x + bias, backward


_biased: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] = tf.custom_gradient(_biased_and_gradient)


class Dense(keras.layers.Dense):
    """keras.layers.Dense without activation; `with_bias` adds its bias."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """[..., units] of [..., C]."""
        return with_bias(keras.ops.matmul(inputs, self.kernel), self.bias)


class Conv2D(keras.layers.Conv2D):
    """keras.layers.Conv2D without activation; `with_bias` adds its bias."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """[B, h, w, filters] of [B, H, W, C]."""
        return with_bias(self.convolution_op(inputs, self.kernel), self.bias)


def in_one_pass(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """The function of tensors of one shape, element by element, which XLA compiles within a graph on a CPU too.

    By itself TensorFlow runs its operations one after another there, each from memory to memory. XLA compiles anew for
    each shape, so only one that is known when the graph is traced: `build` then runs it, off the clock.
    """
    compiled = tf.function(function, jit_compile=True, autograph=False, reduce_retracing=True)

    @wraps(function)
    def run(*tensors: tf.Tensor) -> tf.Tensor:
        shape = tensors[0].shape
        if not (tf.inside_function() and shape.is_fully_defined()):
            return function(*tensors)
        result: tf.Tensor = compiled(*tensors)
        result.set_shape(shape)
        return result

    return run


def _below(x: tf.Tensor) -> tf.Tensor:
    """The standard normal distribution function of `x`."""
    return 0.5 * (1 + tf.math.erf(x * 0.5**0.5))


@in_one_pass
def _gelu_of(x: tf.Tensor) -> tf.Tensor:
    wide = tf.cast(x, tf.float32)
    return tf.cast(wide * _below(wide), x.dtype)


@in_one_pass
def _gelu_gradient(x: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
    wide = tf.cast(x, tf.float32)
    slope = _below(wide) + wide * tf.exp(-0.5 * wide * wide) * (2 * math.pi) ** -0.5
    return tf.cast(tf.cast(gradient, tf.float32) * slope, x.dtype)


def _gelu_and_gradient(x: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
    scope = "/".join(filter(None, ("gradient_tape", tf.get_current_name_scope(), "gelu")))

    def backward(gradient: tf.Tensor) -> tf.Tensor:
        with tf.name_scope(f"{scope}/"):  # as the tape names the gradients of operations
            return _gelu_gradient(x, gradient)

    return _gelu_of(x), backward


_gelu: Callable[[tf.Tensor], tf.Tensor] = tf.custom_gradient(_gelu_and_gradient)


def gelu(x: tf.Tensor) -> tf.Tensor:
    """`tf.nn.gelu` in float32, by `erf`; it keeps only `x` for the gradient, where TensorFlow keeps three arrays.

    On a CPU TensorFlow computes `erfc` one number at a time: with gradients, 2,400 x 512 values in bf16 take it 13.4 ms
    and this 2.6, or 6.3 where the shape is not known beforehand; in fp32 7.3, 2.1 and 5.2 (one hyperthread of an Intel
    Xeon, one thread).
    """
    return _gelu(x)


def narrow(x: tf.Tensor, axis: int, start: int, length: Any) -> tf.Tensor:
    """torch.narrow: x[start : start + length] along an axis, or to its end if `length` is -1.

    The gradient of `x[...]` takes a CPU longer: for three slices of [16, 152, 256], 25 ms in bf16 and 32 in fp32, in
    place of 5 and 7 (one core of an Intel Xeon).
    """
    begin, size = [0] * x.shape.rank, [-1] * x.shape.rank
    begin[axis], size[axis] = start, length
    return tf.slice(x, begin, size)


def dropout_seed(seed: int, step: int, rank: int = 0) -> np.ndarray:
    """`recipe.dropout_seed` as TensorFlow's stateless random functions take it: int32 [2].

    Each place of dropout in the network folds in its own number, so that no two draw the same.
    """
    return np.array([recipe.dropout_seed(seed, step, rank)]).view(np.int32)


def torch_name(path: str) -> str:
    """PyTorch's name of a Keras variable: `network/blocks.0/inner/kernel` is `blocks.0.inner.weight`."""
    *layers, name = path.split("/")[1:]
    return ".".join([*layers, NAMES.get(name, name)])


def to_torch(path: str, value: np.ndarray) -> np.ndarray:
    """A variable as PyTorch lays it out: kernels [height, width, in, out] as [out, in, height, width]."""
    if path.endswith("/kernel"):
        return np.ascontiguousarray(np.moveaxis(value, (-1, -2), (0, 1)))
    return value


def from_torch(path: str, value: np.ndarray) -> np.ndarray:
    """The inverse of `to_torch`."""
    return np.moveaxis(value, (0, 1), (-1, -2)) if path.endswith("/kernel") else value


def state_dict(model: keras.Model, optimizers: Sequence[Optimizer], scaler: Any, step: int) -> dict[str, np.ndarray]:
    """Copies for a state, with PyTorch's names and layouts; see `torch_shared.state_dict`."""
    state: dict[str, Any] = {torch_name(v.path): to_torch(v.path, v.numpy()) for v in model.weights}
    for optimizer in optimizers:
        for name, value in optimizer.moments().items():
            moment, _, path = name.partition("/")
            state[f"{moment}/{torch_name(path)}" if path else name] = to_torch(path, np.asarray(value.numpy()))
    state |= {**scaler.state_dict(), "step": step}
    return {name: np.asarray(value) for name, value in state.items()}  # TensorFlow's scalars are no arrays


def load_state_dict(
    model: keras.Model, optimizers: Sequence[Optimizer], scaler: Any, state: Mapping[str, np.ndarray]
) -> int:
    """Load a state of either framework in place; moments that it lacks start at zero. Returns the step."""
    for variable in model.weights:
        variable.assign(from_torch(variable.path, state[torch_name(variable.path)]))
    for optimizer in optimizers:
        for name, variable in optimizer.moments().items():
            moment, _, path = name.partition("/")
            value = state.get(f"{moment}/{torch_name(path)}" if path else name)
            variable.assign(tf.zeros_like(variable) if value is None else from_torch(path, value))
    scaler.load_state_dict(state)
    return int(state["step"])


class TensorFlowTrainer(Trainer[Hyper, Fed]):
    """A `Trainer` whose state is that of model, optimizers and scaler."""

    model: keras.Model
    optimizers: Sequence[Optimizer]
    scaler: Any

    def state_dict(self) -> dict[str, np.ndarray]:
        """See `state_dict`."""
        return state_dict(self.model, self.optimizers, self.scaler, self.step)

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """See `load_state_dict`."""
        self.step = load_state_dict(self.model, self.optimizers, self.scaler, state)
        self.fed = None
