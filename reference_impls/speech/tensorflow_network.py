"""The parts of speech recognition in TensorFlow: the twin of `torch_network.py`."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from reference_impls.speech import shared
from reference_impls.speech.shared import SPREAD, SUBSAMPLING, Hyperparameters
from reference_impls.tensorflow_shared import Conv2D, Dense, gelu, narrow

EPSILON = 1e-5  # of layer norm, PyTorch's


class Recordings(tf.Module):
    """Features of recordings, one after another; they stay on the device."""

    def __init__(self, features_shape: tuple[int, int], count: int) -> None:
        super().__init__()
        made_up = min(shared.LONGEST, features_shape[0])
        self.features = tf.Variable(tf.zeros(features_shape, tf.uint8), trainable=False)  # [all frames, mels]
        self.frames = tf.Variable(tf.fill((count,), tf.constant(made_up, tf.int64)), trainable=False)  # of each
        self.starts = tf.Variable(tf.zeros(count, tf.int64), trainable=False)  # where each begins
        self.means = tf.Variable(tf.zeros((count, features_shape[1])), trainable=False)  # the mean spectrum of each

    def fill(self, features: np.ndarray, frames: np.ndarray) -> None:
        """Take over recordings, in place."""
        self.features.assign(features)
        self.frames.assign(frames)
        self.starts.assign(shared.starts(frames))
        whose = np.repeat(np.arange(len(frames)), frames)
        sums = tf.math.unsorted_segment_sum(tf.cast(self.features, tf.float32), whose, len(frames))
        self.means.assign(sums / tf.cast(self.frames, tf.float32)[:, None])

    def __call__(self, chosen: tf.Tensor, speed: tf.Tensor, frames: tf.Tensor, time: tf.Tensor) -> tf.Tensor:
        """Features float32 [B, T, mels] of `chosen` [B] at `speed` [B], by linear interpolation; `time` is 0 to T - 1.

        Zero from `frames` [B] on; each recording's mean is zero.
        """
        last, first = tf.gather(self.frames, chosen)[:, None] - 1, tf.gather(self.starts, chosen)[:, None]
        position = tf.minimum(tf.cast(time, tf.float32) * speed[:, None], tf.cast(last, tf.float32))
        before = tf.cast(position, tf.int64)
        after = tf.minimum(before + 1, last)
        share = (position - tf.cast(before, tf.float32))[..., None]
        one, other = (tf.cast(tf.gather(self.features, first + at), tf.float32) for at in (before, after))
        features = (one + share * (other - one) - tf.gather(self.means, chosen)[:, None]) / SPREAD
        return features * tf.cast(time < frames[:, None], tf.float32)[..., None]


def masked(features: tf.Tensor, bands: tf.Tensor, spans: tf.Tensor) -> tf.Tensor:
    """SpecAugment: features [B, T, mels], zero (the mean) in bands of mels [B, n, 2] and spans of frames [B, m, 2]."""
    mels, frames = covered(bands, tf.shape(features)[2]), covered(spans, tf.shape(features)[1])
    return tf.where(mels[:, None] | frames[..., None], 0.0, features)


def covered(ranges: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Bool [B, size], true inside any of `ranges` [B, n, 2], each a first place and a length."""
    place = tf.range(size)[:, None]
    first, number = tf.unstack(ranges[:, None], axis=3)
    return tf.reduce_any((place >= first) & (place < first + number), 2)


def output_frames(frames: tf.Tensor) -> tf.Tensor:
    """The number of output frames for this number of frames of features."""
    return (frames + SUBSAMPLING - 1) // SUBSAMPLING


def inside(frames: tf.Tensor, time: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """[B, time], 1 for the first `frames` [B] of each row, 0 after them."""
    return tf.cast(tf.sequence_mask(frames, time), dtype)


class ResidualBlock(keras.layers.Layer):
    """A time-delay layer of three frames, GELU, and a matrix, added to the input; see `torch_network.py`."""

    def __init__(self, width: int, dilation: int, dropout: float, site: int = 0, **options: Any) -> None:
        super().__init__(**options)
        self.width, self.dilation, self.dropout, self.site = width, dilation, dropout, site
        self.norm = keras.layers.LayerNormalization(epsilon=EPSILON, name="norm", dtype=self.dtype_policy)
        self.inner = Dense(2 * width, name="inner", dtype=self.dtype_policy)
        self.outer = Dense(width, name="outer", dtype=self.dtype_policy)

    def call(self, x: tf.Tensor, within: tf.Tensor, seed: tf.Tensor | None) -> tf.Tensor:
        """`x` [B, T, width] to the same; `within` [B, T, 1] is 1 inside the recordings and 0 after their end."""
        dilation, (batch, time, _) = self.dilation, tf.unstack(tf.shape(x))
        y = tf.pad(self.norm(x) * within, ((0, 0), (dilation, dilation), (0, 0)))
        y = tf.concat([narrow(y, 1, i * dilation, time) for i in range(3)], 2)
        y = gelu(self.inner(tf.reshape(y, (-1, 3 * self.width))))
        if seed is not None:  # dropout of a channel in a whole recording
            seed = tf.random.experimental.stateless_fold_in(seed, self.site)
            kept = tf.random.stateless_uniform((batch, 1, 2 * self.width), seed) >= self.dropout
            wide = tf.cast(tf.reshape(y, (batch, time, 2 * self.width)), tf.float32)  # a factor in bf16 would be off
            wide *= tf.cast(kept, tf.float32) / (1 - self.dropout)
            y = tf.reshape(tf.cast(wide, y.dtype), (-1, 2 * self.width))
        return x + tf.reshape(self.outer(y), (batch, time, self.width))


class SpeechNetwork(keras.Model):
    """Convolutions that divide time by 8, then residual blocks over time, then a label for each frame."""

    def __init__(self, hyper: Hyperparameters, labels: int, dtype: keras.DTypePolicy) -> None:
        super().__init__(name="network", dtype=dtype)
        self.convs = [
            Conv2D(channels, 3, strides=2, name=f"convs.{i}", dtype=dtype) for i, channels in enumerate(hyper.channels)
        ]
        self.project = Dense(hyper.width, name="project", dtype=dtype)
        self.blocks = [
            ResidualBlock(hyper.width, dilation, hyper.dropout, i, name=f"blocks.{i}", dtype=dtype)
            for i, dilation in enumerate(hyper.dilations)
        ]
        self.norm = keras.layers.LayerNormalization(epsilon=EPSILON, name="norm", dtype=dtype)
        self.head = Dense(labels, name="head", dtype=dtype)

    def call(self, features: tf.Tensor, frames: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Logits float32 [B, T / 8, labels] of features [B, T, mels], whose outputs from `frames` [B] on are padding.

        `seed` int32 [2] is that of dropout, in training.
        """
        x = tf.cast(features, self.compute_dtype)[..., None]
        for i, conv in enumerate(self.convs):
            x = tf.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))  # explicit padding in conv2d is 30 times as slow in bf16
            x = tf.nn.relu(conv(x))
            x *= inside(frames * (SUBSAMPLING >> (i + 1)), tf.shape(x)[1], x.dtype)[..., None, None]
        batch, time = tf.unstack(tf.shape(x))[:2]
        x = self.project(tf.reshape(x, (-1, x.shape[2] * x.shape[3])))
        x = tf.reshape(x, (batch, time, x.shape[1]))
        within = inside(frames, time, x.dtype)[..., None]
        for block in self.blocks:
            x = block(x, within, seed)
        x = self.head(tf.reshape(self.norm(x), (-1, x.shape[2])))
        return tf.cast(tf.reshape(x, (batch, time, x.shape[1])), tf.float32)
