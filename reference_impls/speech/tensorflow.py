"""Speech recognition in TensorFlow: the twin of `torch.py`, line by line. States are alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from reference_impls.kept import Kept
from reference_impls.precision import loss_scale
from reference_impls.speech.shared import (
    FP16_LOSS_SCALE,
    SUBSAMPLING,
    Batch,
    Batches,
    Hyperparameters,
    Recordings,
    decode,
    evaluation_batches,
    initial_parameters,
    warmup_batches,
)
from reference_impls.tensorflow_shared import DTYPES, device_name
from suite.harness.implementation import Device, TrainStats

ACCELERATORS = 1
EPSILON = 1e-5  # of layer norm, PyTorch's
EVAL_BATCH = 50
Parameters = dict[str, tf.Tensor]


def network(
    p: Parameters, features: tf.Tensor, frames: tf.Tensor, kept: tf.Tensor | None, dilations: Sequence[int]
) -> tf.Tensor:
    """Logits float32 [B, T / 8, labels] of features [B, T, mels], whose outputs from `frames` [B] on are padding.

    `kept` [blocks, B, 1, hidden] is dropout's factor on hidden channels. Padding is zero before each convolution
    over time, so a recording's logits do not depend on the others in its batch.
    """
    dtype = features.dtype
    batch, time = tf.unstack(tf.shape(features))[:2]
    x = features[..., None]
    for i in range(3):
        time //= 2
        x = tf.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))  # explicit padding in conv2d is 30 times as slow in bf16
        x = tf.nn.conv2d(x, tf.cast(p[f"conv{i}_weight"], dtype), 2, "VALID")
        x = tf.nn.relu(x + tf.cast(p[f"conv{i}_bias"], dtype))
        x *= mask(frames * (SUBSAMPLING >> (i + 1)), time, dtype)[:, :, None]
    x = linear(p, "project", tf.reshape(x, (batch, time, x.shape[2] * x.shape[3])))
    inside = mask(frames, time, dtype)
    for i, dilation in enumerate(dilations):
        y = tf.pad(norm(p, f"block{i}_norm", x) * inside, ((0, 0), (dilation, dilation), (0, 0)))
        y = tf.concat([y[:, j * dilation : j * dilation + time] for j in range(3)], 2)
        y = tf.nn.gelu(linear(p, f"block{i}_in", y), approximate=True)
        if kept is not None:
            y *= kept[i]
        x += linear(p, f"block{i}_out", y)
    return tf.cast(linear(p, "head", norm(p, "norm", x)), tf.float32)


def mask(frames: tf.Tensor, time: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """[B, time, 1], one within `frames` [B] and zero behind."""
    return tf.cast(tf.sequence_mask(frames, time), dtype)[..., None]


def linear(p: Parameters, name: str, x: tf.Tensor) -> tf.Tensor:
    """`x` [B, T, in] by the matrix [in, out] and the bias of layer `name`."""
    weight = tf.cast(p[f"{name}_weight"], x.dtype)
    flat = tf.matmul(tf.reshape(x, (-1, weight.shape[0])), weight) + tf.cast(p[f"{name}_bias"], x.dtype)
    return tf.reshape(flat, (*tf.unstack(tf.shape(x))[:2], weight.shape[1]))


def norm(p: Parameters, name: str, x: tf.Tensor) -> tf.Tensor:
    """Layer norm."""
    wide = tf.cast(x, tf.float32)
    mean, variance = tf.nn.moments(wide, 2, keepdims=True)
    normal = (wide - mean) * tf.math.rsqrt(variance + EPSILON)
    return tf.cast(normal * p[f"{name}_weight"] + p[f"{name}_bias"], x.dtype)


class TensorFlowSpeech:
    """The implementation; see `suite.harness.implementation.Implementation`.

    All parameters lie in one vector, and so do both moments of Adam; `parameters()` names its parts.
    """

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        self.hyper, self.data, self.seed = hyper, data, seed
        self.device = device_name(device)
        self.dtype, self.scale = DTYPES[device.precision], loss_scale(device.precision, FP16_LOSS_SCALE)
        self.units = bytes(data["units"]).decode("ascii").split("\n")
        mels = data["train_features"].shape[1]
        initial = initial_parameters(hyper, mels, len(self.units) + 1, seed)
        self.shapes = {name: value.shape for name, value in initial.items()}
        self.batches: Iterator[Batch] | None = None
        self.evaluation = Kept(self.evaluation_batches)
        count = sum(value.size for value in initial.values())
        with tf.device(self.device):
            self.flat, self.moment1, self.moment2 = (tf.Variable(tf.zeros(count)) for _ in range(3))
        features, frames = tf.TensorSpec((None, None, mels)), tf.TensorSpec((None,), tf.int32)
        labels, kept = tf.TensorSpec((None, None), tf.int32), tf.TensorSpec((len(hyper.dilations), None, 1, None))
        scalars = tf.TensorSpec((3,))
        self.graph_step = tf.function(self._graph_step, [features, frames, labels, frames, kept, scalars])
        self.graph_logits = tf.function(self._graph_logits, [features, frames])
        self.load_state_dict({**initial, "step": np.array(0)})

    def train_until(self, samples: int) -> TrainStats:
        """Take whole steps until `samples` samples have been seen."""
        if self.batches is None:
            self.batches = Batches(self.data, self.hyper, self.seed).iterate(self.step)
        while True:
            loss = self.train_step(next(self.batches))
            self.step += 1
            if self.step * self.hyper.global_batch_size >= samples:
                return TrainStats(self.step * self.hyper.global_batch_size, float(loss))

    def train_step(self, batch: Batch) -> tf.Tensor:
        """One step; the loss, CTC's negative log-likelihood of a transcript, mean over the batch."""
        hyper, rate = self.hyper, self.hyper.learning_rate(batch.epoch)
        corrections = [1 - beta ** (self.step + 1) for beta in (hyper.opt_adamw_beta_1, hyper.opt_adamw_beta_2)]
        with tf.device(self.device):
            return self.graph_step(
                batch.features,
                batch.frames,
                batch.labels,
                batch.lengths,
                batch.kept,
                np.array([rate, *corrections], np.float32),
            )

    def _graph_step(
        self,
        features: tf.Tensor,
        frames: tf.Tensor,
        labels: tf.Tensor,
        lengths: tf.Tensor,
        kept: tf.Tensor,
        scalars: tf.Tensor,
    ) -> tf.Tensor:
        with tf.GradientTape() as tape:
            x, dropout = tf.cast(features, self.dtype), tf.cast(kept, self.dtype)
            logits = network(self.parameters(), x, frames, dropout, self.hyper.dilations)
            loss = tf.reduce_mean(ctc_loss(logits, labels, frames, lengths))
            scaled = loss * self.scale
        gradient = tape.gradient(scaled, self.flat) / self.scale
        self.update(tf.where(tf.math.is_finite(gradient), gradient, tf.zeros_like(gradient)), *tf.unstack(scalars))
        return loss

    def update(self, gradient: tf.Tensor, rate: tf.Tensor, correction1: tf.Tensor, correction2: tf.Tensor) -> None:
        """One step of AdamW (Loshchilov & Hutter, 2019) with gradient clipping, on all parameters."""
        hyper = self.hyper
        gradient *= tf.minimum(hyper.opt_gradient_clip_norm / tf.norm(gradient), 1.0)
        self.moment1.assign_add((1 - hyper.opt_adamw_beta_1) * (gradient - self.moment1))
        self.moment2.assign_add((1 - hyper.opt_adamw_beta_2) * (gradient**2 - self.moment2))
        deviation = tf.sqrt(self.moment2 / correction2) + hyper.opt_adamw_epsilon
        shrunk = self.flat * (1 - rate * hyper.opt_weight_decay)
        self.flat.assign(shrunk - rate / correction1 * self.moment1 / deviation)

    def logits(self, features: tf.Tensor, frames: tf.Tensor) -> np.ndarray:
        """Logits float32 [B, T / 8, labels] of features float32 [B, T, mels] with `frames` [B] of output."""
        with tf.device(self.device):
            result: np.ndarray = self.graph_logits(features, frames).numpy()
        return result

    def _graph_logits(self, features: tf.Tensor, frames: tf.Tensor) -> tf.Tensor:
        return network(self.parameters(), tf.cast(features, self.dtype), frames, None, self.hyper.dilations)

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The words of each test recording."""
        texts = [""] * len(data["test_frames"])
        for chosen, frames, tensors in self.evaluation.of(data):
            for i, text in zip(chosen, decode(self.logits(*tensors).argmax(2), frames, self.units), strict=True):
                texts[i] = text
        return texts

    def evaluation_batches(self, data: Mapping[str, np.ndarray]) -> list[tuple[np.ndarray, np.ndarray, Any]]:
        """The test recordings' numbers [B] and output frames [B], and what `logits` is given of them."""
        recordings = Recordings(data["test_features"], data["test_frames"])
        return [
            (chosen, frames, (self.on_device(features), self.on_device(frames)))
            for chosen, features, frames in evaluation_batches(recordings, EVAL_BATCH)
        ]

    def parameters(self) -> Parameters:
        """The parameters by name, parts of the one vector."""
        parts = tf.split(self.flat, [int(np.prod(shape)) for shape in self.shapes.values()])
        return {name: tf.reshape(part, shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, moments and the step."""
        edges = np.cumsum([int(np.prod(shape)) for shape in self.shapes.values()])[:-1]
        vectors = {"": self.flat, "moment1/": self.moment1, "moment2/": self.moment2}
        parts = {
            prefix + name: part.reshape(shape)
            for prefix, vector in vectors.items()
            for (name, shape), part in zip(self.shapes.items(), np.split(vector.numpy(), edges), strict=True)
        }
        return {**parts, "step": np.array(self.step)}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework; without moments they start at zero."""
        for prefix, vector in {"": self.flat, "moment1/": self.moment1, "moment2/": self.moment2}.items():
            parts = [state.get(prefix + name, np.zeros(shape)).ravel() for name, shape in self.shapes.items()]
            vector.assign(np.concatenate(parts, dtype=np.float32))
        self.step = int(state["step"])
        self.batches = None

    def on_device(self, values: np.ndarray) -> tf.Tensor:
        """The values as a tensor."""
        with tf.device(self.device):
            return tf.constant(values)


def ctc_loss(logits: tf.Tensor, labels: tf.Tensor, frames: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """CTC's negative log-likelihood [B]; zero, without gradient, of a transcript that does not fit its frames.

    The kernel that can leave such a transcript out takes the last label for the blank.
    """
    return tf.compat.v1.nn.ctc_loss(
        tf.RaggedTensor.from_tensor(labels - 1, lengths).to_sparse(),
        tf.roll(logits, -1, 2),
        frames,
        time_major=False,
        ignore_longer_outputs_than_inputs=True,
    )


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TensorFlowSpeech:
    """The implementation, traced and warmed up on made-up recordings; its state is that of the seed."""
    made = TensorFlowSpeech(Hyperparameters.of(hyperparameters), data, seed, device)
    initial = made.state_dict()
    for batch in warmup_batches(made.hyper, data["train_features"].shape[1]):
        made.train_step(batch)
        made.logits(made.on_device(batch.features), made.on_device(batch.frames))
    made.load_state_dict(initial)
    return made
