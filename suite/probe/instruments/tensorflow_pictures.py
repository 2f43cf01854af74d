"""Pictures resized and decoded by TensorFlow."""

from __future__ import annotations

import numpy as np
import tensorflow as tf


def resized(pictures: np.ndarray, size: tuple[int, ...], antialias: bool) -> np.ndarray:
    """See `Instruments.resized`."""
    with tf.device("/CPU:0"):  # a GPU's memory may be another framework's
        made = tf.image.resize(pictures, size, antialias=antialias).numpy()
    return np.asarray(np.rint(made).clip(0, 255), np.uint8)


def decoded(jpeg: bytes, channels: int) -> np.ndarray:
    """See `Instruments.decoded`."""
    return np.asarray(tf.io.decode_jpeg(jpeg, channels))
