"""The detector in TensorFlow: the twin of `torch_network.py`, line by line."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from reference_impls.detection.shared import EPSILON, Hyperparameters
from reference_impls.tensorflow_shared import Conv2D
from reference_impls.tensorflow_workers import Workers, batch_norm


class BatchNorm(keras.layers.Layer):
    """Batch norm as in PyTorch: the running variance is unbiased. Keras's is biased, and takes more than one kernel."""

    def __init__(self, momentum: float, workers: Workers, **options: Any) -> None:
        super().__init__(**options)
        self.momentum, self.workers = momentum, workers

    def build(self, shape: tuple[int, ...]) -> None:
        """Make the variables, in fp32."""

        def made(name: str, initializer: str, trainable: bool) -> keras.Variable:
            return self.add_weight(shape[-1:], initializer, "float32", trainable=trainable, autocast=False, name=name)

        self.gamma, self.beta = made("gamma", "ones", True), made("beta", "zeros", True)
        self.moving_mean = made("moving_mean", "zeros", False)
        self.moving_variance = made("moving_variance", "ones", False)

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """[B, h, w, C] to the same."""
        kept = [self.moving_mean, self.moving_variance]
        if training and self.workers.size > 1:
            y, *batch = batch_norm(x, self.gamma, self.beta, EPSILON, self.workers)
        else:
            y, *batch = tf.raw_ops.FusedBatchNormV3(
                x=x,
                scale=self.gamma,
                offset=self.beta,
                mean=tf.zeros([0]) if training else kept[0],
                variance=tf.zeros([0]) if training else kept[1],
                epsilon=EPSILON,
                is_training=training,
            )[:3]
        if training:
            for variable, value in zip(kept, batch, strict=True):
                variable.assign(self.momentum * variable + (1 - self.momentum) * value)
        return y


class ConvNorm(keras.layers.Layer):
    """A convolution and batch norm; with a stride, patches do not overlap."""

    def __init__(
        self, outputs: int, side: int, momentum: float, workers: Workers, stride: int = 1, **options: Any
    ) -> None:
        super().__init__(**options)
        padding = "same" if stride == 1 else "valid"
        self.conv = keras.layers.Conv2D(
            outputs, side, stride, padding, use_bias=False, name="conv", dtype=self.dtype_policy
        )
        self.norm = BatchNorm(momentum, workers, name="norm", dtype=self.dtype_policy)

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """[B, h, w, inputs] to [B, h / stride, w / stride, outputs]."""
        return self.norm(self.conv(x), training=training)


class Residual(keras.layers.Layer):
    """ResNet's basic block (He et al. 2016)."""

    def __init__(self, width: int, momentum: float, workers: Workers, **options: Any) -> None:
        super().__init__(**options)
        self.first = ConvNorm(width, 3, momentum, workers, name="first", dtype=self.dtype_policy)
        self.second = ConvNorm(width, 3, momentum, workers, name="second", dtype=self.dtype_policy)

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """[B, h, w, width] to the same."""
        y = tf.nn.relu(self.first(x, training=training))
        return tf.nn.relu(x + self.second(y, training=training))


class Detector(keras.Model):
    """Cells [B, h, w, s * s * C] to heat logits [B, h, w, classes] and sides in pixels [B, h, w, 4], both float32."""

    def __init__(self, hyper: Hyperparameters, workers: Workers, dtype: keras.DTypePolicy) -> None:
        super().__init__(name="detector", dtype=dtype)
        widths, momentum = hyper.widths, hyper.norm_momentum
        self.classes, self.box_prior = hyper.classes, hyper.box_prior

        def conv_norm(name: str, outputs: int, side: int, stride: int = 1) -> ConvNorm:
            return ConvNorm(outputs, side, momentum, workers, stride, name=name, dtype=dtype)

        halved = [conv_norm(f"down.{i}", width, 2, stride=2) for i, width in enumerate(widths) if i]
        self.down = [conv_norm("down.0", widths[0], 3), *halved]
        self.blocks = [
            [Residual(width, momentum, workers, name=f"blocks.{level}.{i}", dtype=dtype) for i in range(blocks)]
            for level, (width, blocks) in enumerate(zip(widths, hyper.blocks, strict=True))
        ]
        self.lateral = [conv_norm(f"lateral.{level}", width, 1) for level, width in enumerate(widths[:-1])]
        self.up = [conv_norm(f"up.{level}", width, 3) for level, width in enumerate(widths[:-1])]
        self.head = conv_norm("head", hyper.head_width, 3)
        self.output_layer = Conv2D(hyper.classes + 4, 1, name="output", dtype=dtype)

    def call(self, cells: tf.Tensor, training: bool = False) -> tuple[tf.Tensor, tf.Tensor]:
        """See the class."""
        x = cells
        levels: list[tf.Tensor] = []
        for down, blocks in zip(self.down, self.blocks, strict=True):
            x = tf.nn.relu(down(x, training=training))
            for block in blocks:
                x = block(x, training=training)
            levels.append(x)
        for level in reversed(range(len(levels) - 1)):
            x = doubled(self.lateral[level](x, training=training))
            x = tf.nn.relu(self.up[level](tf.nn.relu(x + levels[level]), training=training))
        output = tf.cast(self.output_layer(tf.nn.relu(self.head(x, training=training))), tf.float32)
        return output[..., : self.classes], self.box_prior * tf.exp(output[..., self.classes :])


def doubled(x: tf.Tensor) -> tf.Tensor:
    """[B, h, w, C] at twice the resolution, each cell repeated."""
    batch, height, width, channels = x.shape
    wide = tf.broadcast_to(x[:, :, None, :, None], (batch, height, 2, width, 2, channels))
    return tf.reshape(wide, (batch, 2 * height, 2 * width, channels))
