"""The network of image classification in TensorFlow: the twin of `torch_network.py`."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from reference_impls.image_classification.shared import CLASSES, EPSILON, Hyperparameters
from reference_impls.image_classification.tensorflow_convolution import Conv2D
from reference_impls.tensorflow_shared import Conv2D as BiasedConv2D
from reference_impls.tensorflow_shared import gelu, policy
from reference_impls.tensorflow_workers import Workers, batch_norm
from suite.harness.implementation import Device


class BatchNorm(keras.layers.Layer):
    """Batch normalisation with a bias, no scale, and an unbiased running variance as in PyTorch (Keras's is biased)."""

    def __init__(self, momentum: float, workers: Workers, **options: Any) -> None:
        super().__init__(**options)
        self.momentum, self.workers = momentum, workers

    def build(self, shape: tuple[int, ...]) -> None:
        """Make the variables."""
        width = {"shape": shape[-1:], "autocast": False}
        self.bias = self.add_weight(name="bias", initializer="zeros", **width)
        self.mean = self.add_weight(name="running_mean", initializer="zeros", trainable=False, **width)
        self.variance = self.add_weight(name="running_var", initializer="ones", trainable=False, **width)

    def call(self, x: tf.Tensor, training: bool) -> tf.Tensor:
        """[B, S, S, width] to the same."""
        scale = tf.ones(x.shape[-1])
        if training and self.workers.size > 1:
            y, mean, variance = batch_norm(x, scale, self.bias, EPSILON, self.workers)
        else:
            y, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
                x=x,
                scale=scale,
                offset=self.bias,
                mean=tf.zeros([0]) if training else self.mean,
                variance=tf.zeros([0]) if training else self.variance,
                epsilon=EPSILON,
                is_training=training,
            )
        if training:
            self.mean.assign(self.momentum * self.mean + (1 - self.momentum) * mean)
            self.variance.assign(self.momentum * self.variance + (1 - self.momentum) * variance)
        return y


class Block(keras.layers.Layer):
    """Two 3x3 convolutions, the first of which halves the side."""

    def __init__(self, width: int, momentum: float, workers: Workers, on_cpu: bool, **options: Any) -> None:
        super().__init__(**options)
        dtype = self.dtype_policy
        self.conv1 = Conv2D(width, on_cpu, name="conv1", dtype=dtype)
        self.norm1 = BatchNorm(momentum, workers, name="norm1", dtype=dtype)
        self.conv2 = Conv2D(width, on_cpu, name="conv2", dtype=dtype)
        self.norm2 = BatchNorm(momentum, workers, name="norm2", dtype=dtype)

    def call(self, x: tf.Tensor, training: bool) -> tf.Tensor:
        """[B, S, S, inputs] to [B, S // 2, S // 2, width]."""
        x = tf.nn.max_pool2d(self.conv1(x, training=training), 2, 2, "VALID")
        x = gelu(self.norm1(x, training=training))
        return gelu(self.norm2(self.conv2(x, training=training), training=training))


class Network(keras.Model):
    """Whitening, blocks, maximum over positions, head."""

    def __init__(self, channels: int, hyper: Hyperparameters, workers: Workers, device: Device) -> None:
        dtype, on_cpu = policy(device), device.kind == "cpu"
        super().__init__(name="network", dtype=dtype)
        self.whiten = BiasedConv2D(8 * channels, 2, name="whiten", dtype=dtype)
        self.blocks = [
            Block(width, hyper.norm_momentum, workers, on_cpu, name=f"blocks.{i}", dtype=dtype)
            for i, width in enumerate(hyper.widths)
        ]
        self.head = keras.layers.Dense(CLASSES, use_bias=False, name="head", dtype=dtype)

    def call(self, images: tf.Tensor, training: bool) -> tf.Tensor:
        """Logits float32 [B, classes] of images [B, S, S, C]."""
        x = gelu(self.whiten(images))
        for block in self.blocks:
            x = block(x, training=training)
        x = tf.squeeze(tf.nn.max_pool2d(x, x.shape[1:3], 1, "VALID"), (1, 2))
        return tf.cast(self.head(x), tf.float32) / float(x.shape[-1])
