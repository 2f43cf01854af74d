"""The twin of `torch_convolution.py`: where oneDNN is slow at small images, several of them stand side by side."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from reference_impls.image_classification.shared import AMX
from reference_impls.tensorflow_shared import narrow

CHANNELS = 256  # from this many on it pays
COLUMNS = 32


class Conv2D(keras.layers.Conv2D):
    """keras.layers.Conv2D with a kernel of 3x3, padding 1 and no bias."""

    def __init__(self, width: int, on_cpu: bool, **options: Any) -> None:
        super().__init__(width, 3, padding="same", use_bias=False, **options)
        self.joins_images = AMX and on_cpu and self.compute_dtype == "bfloat16"

    def call(self, x: tf.Tensor, training: bool) -> tf.Tensor:
        """[B, H, W, inputs] to [B, H, W, filters]."""
        count = COLUMNS // (x.shape[2] + 1)
        if self.joins_images and training and x.shape[3] >= CHANNELS and count > 1:
            return apart(super().call(side_by_side(x, count)), count, x.shape[0])
        return super().call(x)


def side_by_side(images: tf.Tensor, count: int) -> tf.Tensor:
    """Images [B, H, W, C] as [B / `count`, H, `count` (W + 1), C], each followed by a column of zeros.

    Where `count` does not divide B, images of zeros fill up the last.
    """
    parts = tf.split(tf.pad(images, ((0, -images.shape[0] % count), (0, 0), (0, 0), (0, 0))), count)
    between = tf.zeros_like(parts[0][:, :, :1])
    return tf.concat([column for part in parts for column in (part, between)], 2)


def apart(wide: tf.Tensor, count: int, batch: int) -> tf.Tensor:
    """The images [`batch`, H, W, C] that stand side by side in `wide`."""
    width = wide.shape[2] // count - 1
    return narrow(tf.concat(tf.split(wide, [width, 1] * count, 2)[::2], 0), 0, 0, batch)
