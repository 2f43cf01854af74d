"""What the implementations in TensorFlow share: the twin of `torch_shared.py`, and PyTorch's layout of convolutions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from suite.harness.implementation import Device

DTYPES = {"fp32": tf.float32, "bf16": tf.bfloat16, "fp16": tf.float16}


def device_name(device: Device) -> str:
    """TensorFlow's name of the device."""
    return "/GPU:0" if device.kind == "gpu" else "/CPU:0"


def unscaled(gradients: Mapping[str, tf.Tensor], scale: float) -> dict[str, tf.Tensor]:
    """The gradients of a loss, dense, from those of `scale` times the loss; zero where these overflowed."""
    dense = {name: tf.convert_to_tensor(gradient) for name, gradient in gradients.items()}
    if scale == 1.0:
        return dense
    divided = {name: gradient / scale for name, gradient in dense.items()}
    return {name: tf.where(tf.math.is_finite(g), g, tf.zeros_like(g)) for name, g in divided.items()}


def from_torch(value: np.ndarray) -> np.ndarray:
    """Convolution weights [out, in, height, width] to [height, width, in, out]; anything else as it is."""
    return value.transpose(2, 3, 1, 0) if value.ndim == 4 else value


def to_torch(value: np.ndarray) -> np.ndarray:
    """The inverse of `from_torch`."""
    return value.transpose(3, 2, 0, 1) if value.ndim == 4 else value


def orthogonalise(matrix: tf.Tensor, steps: int, dtype: tf.DType) -> tf.Tensor:
    """The nearest semi-orthogonal matrix, roughly, by Newton-Schulz iteration (Jordan et al. 2024, Muon)."""
    tall = matrix.shape[0] > matrix.shape[1]
    wide = tf.transpose(matrix) if tall else matrix
    x = tf.cast(wide / (tf.norm(wide) + 1e-7), dtype)
    for _ in range(steps):
        gram = tf.matmul(x, x, transpose_b=True)
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return tf.cast(tf.transpose(x) if tall else x, tf.float32)
