"""Speech recognition in TensorFlow: the twin of `torch.py`. States are alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from reference_impls.kept import Kept
from reference_impls.speech import shared
from reference_impls.speech.shared import EVAL_BATCH, SPREAD, SUBSAMPLING, Batch, Batches, Hyperparameters
from reference_impls.tensorflow_optimizers import AdamW, GradScaler
from reference_impls.tensorflow_shared import device_name, load_state_dict, policy, state_dict
from suite.harness.implementation import Device, TrainStats

ACCELERATORS = 1
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
    """SpecAugment: features [B, T, mels], zero, the mean, in bands of mels [B, n, 2] and spans of frames [B, m, 2]."""
    mels, frames = covered(bands, tf.shape(features)[2]), covered(spans, tf.shape(features)[1])
    return tf.where(mels[:, None] | frames[..., None], 0.0, features)


def covered(ranges: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Bool [B, size], true where one of `ranges` [B, n, 2] is, each its first place and how many."""
    place = tf.range(size)[:, None]
    first, number = tf.unstack(ranges[:, None], axis=3)
    return tf.reduce_any((place >= first) & (place < first + number), 2)


def output_frames(frames: tf.Tensor) -> tf.Tensor:
    """Frames of output for so many frames of features."""
    return (frames + SUBSAMPLING - 1) // SUBSAMPLING


def inside(frames: tf.Tensor, time: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """[B, time], 1 within `frames` [B] and 0 behind."""
    return tf.cast(tf.sequence_mask(frames, time), dtype)


class ResidualBlock(keras.layers.Layer):
    """A time-delay layer of three frames, GELU, and a matrix, on top of what comes in; see `torch.py`."""

    def __init__(self, width: int, dilation: int, dropout: float, **options: Any) -> None:
        super().__init__(**options)
        self.width, self.dilation, self.dropout = width, dilation, dropout
        self.norm = keras.layers.LayerNormalization(epsilon=EPSILON, name="norm", dtype=self.dtype_policy)
        self.inner = keras.layers.Dense(2 * width, name="inner", dtype=self.dtype_policy)
        self.outer = keras.layers.Dense(width, name="outer", dtype=self.dtype_policy)

    def call(self, x: tf.Tensor, within: tf.Tensor, seed: tf.Tensor | None) -> tf.Tensor:
        """`x` [B, T, width], of which `within` [B, T, 1] is 1 inside of the recordings and 0 behind."""
        dilation, (batch, time, _) = self.dilation, tf.unstack(tf.shape(x))
        y = tf.pad(self.norm(x) * within, ((0, 0), (dilation, dilation), (0, 0)))
        y = tf.concat([y[:, i * dilation : i * dilation + time] for i in range(3)], 2)
        y = tf.nn.gelu(self.inner(tf.reshape(y, (-1, 3 * self.width))), approximate=True)
        if seed is not None:  # dropout of a channel in a whole recording
            kept = tf.random.stateless_uniform((batch, 1, 2 * self.width), seed) >= self.dropout
            y = tf.reshape(y, (batch, time, 2 * self.width)) * tf.cast(kept, y.dtype) / (1 - self.dropout)
            y = tf.reshape(y, (-1, 2 * self.width))
        return x + tf.reshape(self.outer(y), (batch, time, self.width))


class SpeechNetwork(keras.Model):
    """Convolutions that divide time by 8, then residual blocks over time, then a label for each frame."""

    def __init__(self, hyper: Hyperparameters, labels: int, dtype: keras.DTypePolicy) -> None:
        super().__init__(name="network", dtype=dtype)
        self.convs = [
            keras.layers.Conv2D(channels, 3, strides=2, name=f"convs.{i}", dtype=dtype)
            for i, channels in enumerate(hyper.channels)
        ]
        self.project = keras.layers.Dense(hyper.width, name="project", dtype=dtype)
        self.blocks = [
            ResidualBlock(hyper.width, dilation, hyper.dropout, name=f"blocks.{i}", dtype=dtype)
            for i, dilation in enumerate(hyper.dilations)
        ]
        self.norm = keras.layers.LayerNormalization(epsilon=EPSILON, name="norm", dtype=dtype)
        self.head = keras.layers.Dense(labels, name="head", dtype=dtype)

    def call(self, features: tf.Tensor, frames: tf.Tensor, seeds: tf.Tensor | None = None) -> tf.Tensor:
        """Logits float32 [B, T / 8, labels] of features [B, T, mels], whose outputs from `frames` [B] on are padding.

        `seeds` int32 [blocks, 2] are those of dropout, in training.
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
        for i, block in enumerate(self.blocks):
            x = block(x, within, None if seeds is None else seeds[i])
        x = self.head(tf.reshape(self.norm(x), (-1, x.shape[2])))
        return tf.cast(tf.reshape(x, (batch, time, x.shape[1])), tf.float32)


def ctc_loss(logits: tf.Tensor, labels: tf.SparseTensor, fits: tf.Tensor, frames: tf.Tensor) -> tf.Tensor:
    """CTC's negative log-likelihood [B]; zero, without gradient, where a transcript does not fit its frames."""
    loss = tf.nn.ctc_loss(labels, logits, None, frames, logits_time_major=False, blank_index=0)
    return tf.where(fits, loss, 0.0)


def sparse(labels: np.ndarray, lengths: np.ndarray, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Transcripts [B, L] of `lengths` [B] as indices and values of a SparseTensor, and whether each fits its `frames`.

    A repeated label needs a blank before it. In the place of a transcript that does not fit stands its first label.
    """
    place = np.arange(labels.shape[1])
    repeats = ((labels[:, 1:] == labels[:, :-1]) & (place[1:] < lengths[:, None])).sum(1)
    fits = lengths + repeats <= frames
    indices = np.argwhere(place < np.where(fits, lengths, 1)[:, None])
    return indices, labels[tuple(indices.T)], fits


class TensorFlowSpeech:
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        self.hyper, self.data, self.seed = hyper, data, seed
        self.device, on_gpu = device_name(device), device.kind == "gpu"
        self.multiple = shared.COMPILED if on_gpu else 64  # frames
        self.units = bytes(data["units"]).decode("ascii").split("\n")
        shape = data["train_features"].shape
        self.labels = np.ones((len(data["train_frames"]), 1), np.int32)
        self.lengths = np.ones(len(data["train_frames"]), np.int32)
        with tf.device(self.device):
            self.recordings = Recordings(shape, len(data["train_frames"]))
            self.warps = tf.constant(shared.warps(shape[1], hyper))
            self.model = SpeechNetwork(hyper, len(self.units) + 1, policy(device))
            self.model(tf.zeros((1, 64, shape[1])), tf.constant([8]))
            self.optimizer = AdamW(
                hyper.opt_base_learning_rate,
                beta_1=hyper.opt_adamw_beta_1,
                beta_2=hyper.opt_adamw_beta_2,
                epsilon=hyper.opt_adamw_epsilon,
                weight_decay=hyper.opt_weight_decay,
            )
            self.optimizer.build(self.model.trainable_variables)
            self.scaler = GradScaler(device.precision == "fp16")
        whole, vector = tf.TensorSpec((None,), tf.int64), tf.TensorSpec((None,), tf.int32)
        ranges, seeds = tf.TensorSpec((None, None, 2), tf.int32), tf.TensorSpec((len(hyper.dilations), 2), tf.int32)
        # On a GPU XLA compiles what stands before and after CTC's loss, which it does not know.
        drawn = [whole, tf.TensorSpec((None,)), vector, whole, ranges, ranges, vector, seeds]
        self.training_logits = tf.function(self._training_logits, drawn, jit_compile=on_gpu)
        self.update = tf.function(self._update, jit_compile=on_gpu)
        self.logits = tf.function(self._logits, [tf.TensorSpec((None, None, shape[1])), vector], jit_compile=on_gpu)
        indices, fits = tf.TensorSpec((None, 2), tf.int64), tf.TensorSpec((None,), tf.bool)
        self.graph_step = tf.function(self._graph_step, [drawn, indices, vector, fits, tf.TensorSpec(())])
        self.batches: Iterator[Batch] | None = None
        self.filled = False
        self.evaluation = Kept(self.evaluation_batches)

    def train_until(self, samples: int) -> TrainStats:
        """Take whole steps until `samples` samples have been seen."""
        if not self.filled:
            with tf.device(self.device):
                self.recordings.fill(np.array(self.data["train_features"]), np.array(self.data["train_frames"]))
            self.lengths = np.array(self.data["train_lengths"], np.int32)
            self.labels = shared.rows(self.data["train_labels"], self.lengths)
            self.filled = True
        if self.batches is None:
            frames, mels = np.array(self.data["train_frames"]), self.recordings.features.shape[1]
            self.batches = Batches(frames, mels, self.hyper, self.seed, self.multiple).iterate(self.step)
        while True:
            loss = self.train_step(next(self.batches))
            self.step += 1
            if self.step * self.hyper.global_batch_size >= samples:
                return TrainStats(self.step * self.hyper.global_batch_size, float(loss))

    def train_step(self, batch: Batch) -> tf.Tensor:
        """One step; the loss, CTC's negative log-likelihood of a transcript, mean over the batch."""
        time, blocks = np.arange(batch.time, dtype=np.int32), len(self.hyper.dilations)
        seeds = batch.seed.view(np.int32) + np.stack([np.arange(blocks, dtype=np.int32)] * 2, 1)
        labels, lengths = self.labels[batch.recordings], self.lengths[batch.recordings]
        transcripts = sparse(labels, lengths, shared.output_frames(batch.frames))
        drawn = (batch.recordings, batch.speed, batch.frames, batch.warp, batch.bands, batch.spans, time, seeds)
        with tf.device(self.device):
            rate = tf.constant(self.hyper.learning_rate(batch.epoch), tf.float32)
            return self.graph_step([*map(tf.constant, drawn)], *map(tf.constant, transcripts), rate)

    def _graph_step(
        self, drawn: Sequence[tf.Tensor], indices: tf.Tensor, values: tf.Tensor, fits: tf.Tensor, rate: tf.Tensor
    ) -> tf.Tensor:
        recordings, frames = drawn[0], drawn[2]
        with tf.GradientTape() as tape:
            logits = self.training_logits(*drawn)
            shape = tf.shape(logits, tf.int64)
            labels = tf.SparseTensor(indices, values, shape[:2])
            losses = ctc_loss(logits, labels, fits, output_frames(frames))
            loss = tf.reduce_sum(losses) / tf.cast(tf.size(recordings), tf.float32)
            scaled = self.scaler.scale(loss)
        self.update(tape.gradient(scaled, self.model.trainable_variables), rate)
        return loss

    def _training_logits(
        self,
        recordings: tf.Tensor,
        speed: tf.Tensor,
        frames: tf.Tensor,
        warp: tf.Tensor,
        bands: tf.Tensor,
        spans: tf.Tensor,
        time: tf.Tensor,
        seeds: tf.Tensor,
    ) -> tf.Tensor:
        """Logits float32 [B, T / 8, labels] of a `Batch`, whose recordings are augmented; `time` is 0 to T - 1."""
        features = tf.matmul(self.recordings(recordings, speed, frames, time), tf.gather(self.warps, warp))
        return self.model(masked(features, bands, spans), output_frames(frames), seeds)

    def _update(self, gradients: Sequence[tf.Tensor], rate: tf.Tensor) -> None:
        """One step of AdamW with gradient clipping, as torch.nn.utils.clip_grad_norm_ does it."""
        variables = self.model.trainable_variables

        def apply(true: Sequence[tf.Tensor]) -> None:
            clipped = tf.minimum(self.hyper.opt_gradient_clip_norm / (tf.linalg.global_norm(true) + 1e-6), 1.0)
            self.optimizer.learning_rate.assign(rate)
            self.optimizer.apply([gradient * clipped for gradient in true], variables)

        self.scaler.step(gradients, apply)

    def _logits(self, features: tf.Tensor, frames: tf.Tensor) -> tf.Tensor:
        """Logits float32 [B, T / 8, labels] of features float32 [B, T, mels] with `frames` [B] of output."""
        return self.model(features, frames)

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The words of each test recording."""
        batches = self.evaluation.of(data)
        with tf.device(self.device):
            best = [tf.argmax(self.logits(features, frames), 2, tf.int32) for _, features, frames in batches]
            labels = tf.concat(best, 1).numpy()
        layout = [(chosen, features.shape[1]) for chosen, features, _ in batches]
        return shared.texts(labels, layout, data["test_frames"], self.units)

    def evaluation_batches(self, data: Mapping[str, np.ndarray]) -> list[tuple[np.ndarray, tf.Tensor, tf.Tensor]]:
        """The test recordings' numbers [B], features [B, T, mels] and output frames [B]."""
        lengths, batches = np.array(data["test_frames"], np.int32), []
        with tf.device(self.device):
            recordings = Recordings(data["test_features"].shape, len(lengths))
            recordings.fill(np.array(data["test_features"]), lengths)
            for chosen, time in shared.evaluation_batches(lengths, EVAL_BATCH, self.multiple):
                frames, speed = tf.constant(lengths[chosen]), tf.ones(len(chosen))
                features = recordings(tf.constant(chosen), speed, frames, tf.range(time))
                batches.append((chosen, features, output_frames(frames)))
        return batches

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, moments and the step."""
        return state_dict(self.model, [self.optimizer], self.scaler, self.step)

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework."""
        self.step = load_state_dict(self.model, [self.optimizer], self.scaler, state)
        self.batches = None


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TensorFlowSpeech:
    """The implementation, traced, compiled and warmed up on made-up recordings; its state is that of the seed."""
    made = TensorFlowSpeech(Hyperparameters.of(hyperparameters), data, seed, device)
    mels = data["train_features"].shape[1]
    initial = shared.initial_parameters(made.hyper, mels, len(made.units) + 1, seed)
    made.load_state_dict({**initial, "step": np.array(0)})
    for batch in shared.made_up_batches(made.hyper):
        made.train_step(batch)
        with tf.device(made.device):
            test = tf.zeros((EVAL_BATCH, batch.time, mels))
            made.logits(test, tf.fill((EVAL_BATCH,), batch.time // SUBSAMPLING))
    made.load_state_dict({**initial, "step": np.array(0)})
    return made
