"""Image classification in TensorFlow: the twin of `torch.py`, line by line. States keep PyTorch's layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from reference_impls.image_classification.shared import (
    FP16_LOSS_SCALE,
    Batch,
    Batches,
    Hyperparameters,
    classify,
    initial_parameters,
    normalise,
    whitening,
)
from reference_impls.kept import Kept
from reference_impls.precision import loss_scale
from reference_impls.tensorflow_shared import DTYPES, device_name, old_from_torch, old_to_torch, orthogonalise, unscaled
from suite.harness.implementation import Device, TrainStats

ACCELERATORS = 1
EPSILON = 1e-5
EVAL_BATCH = 1000
Parameters = dict[str, tf.Variable]


def network(p: Parameters, images: tf.Tensor, training: bool, momentum: float) -> tf.Tensor:
    """Logits float32 [B, classes] of images [B, S, S, C]: whitening, pairs of 3x3 convolutions, maximum, head."""
    dtype = images.dtype
    x = tf.nn.conv2d(images, tf.cast(p["whiten_weight"], dtype), 1, "VALID") + tf.cast(p["whiten_bias"], dtype)
    x = tf.nn.gelu(x)
    i = 0
    while f"conv{i}_weight" in p:
        x = tf.nn.conv2d(x, tf.cast(p[f"conv{i}_weight"], dtype), 1, "SAME")
        if i % 2 == 0:
            x = tf.nn.max_pool2d(x, 2, 2, "VALID")
        mean, variance, bias = p[f"norm{i}_mean"], p[f"norm{i}_variance"], p[f"norm{i}_bias"]
        x, batch_mean, batch_variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x,
            scale=tf.ones_like(bias),
            offset=bias,
            mean=tf.zeros([0]) if training else mean,
            variance=tf.zeros([0]) if training else variance,
            epsilon=EPSILON,
            is_training=training,
        )
        if training:
            mean.assign(momentum * mean + (1 - momentum) * batch_mean)
            variance.assign(momentum * variance + (1 - momentum) * batch_variance)
        x = tf.nn.gelu(x)
        i += 1
    x = tf.reduce_max(x, (1, 2))
    head = tf.cast(p["head_weight"], dtype)
    return tf.cast(tf.matmul(x, head, transpose_b=True), tf.float32) / float(x.shape[1])


def update(
    p: Parameters,
    momenta: Parameters,
    gradients: dict[str, tf.Tensor],
    hyper: Hyperparameters,
    rates: tf.Tensor,
    dtype: tf.DType,
) -> None:
    """One step of Muon for the convolutions and of Nesterov momentum for biases and head.

    `rates` holds the factors on the learning rates: of all, and of the whitening bias.
    """
    decay = hyper.opt_weight_decay * hyper.global_batch_size
    for name, momentum in momenta.items():
        parameter, gradient = p[name], gradients[name]
        if name.startswith("conv"):
            momentum.assign(hyper.muon_momentum * momentum + gradient)
            direction = tf.transpose(gradient + hyper.muon_momentum * momentum, (3, 2, 0, 1))
            flat = tf.reshape(direction, (direction.shape[0], -1))
            step = tf.transpose(tf.reshape(orthogonalise(flat, hyper.muon_steps, dtype), direction.shape), (2, 3, 1, 0))
            scaled = parameter * (direction.shape[0] ** 0.5 / tf.norm(parameter))
            parameter.assign(scaled - hyper.muon_learning_rate * rates[0] * step)
            continue
        first_rate = hyper.head_learning_rate if name == "head_weight" else hyper.bias_learning_rate
        rate = first_rate * rates[1 if name == "whiten_bias" else 0]
        gradient += decay / first_rate * parameter
        momentum.assign(hyper.opt_momentum * momentum + gradient)
        parameter.assign_sub(rate * (gradient + hyper.opt_momentum * momentum))


def part(images: tf.Tensor, chosen: np.ndarray, pixels: np.ndarray) -> tf.Tensor:
    """The images `chosen` of [N, S, S, C], made of their rows and columns `pixels`."""
    return tf.gather(tf.gather(tf.gather(images, chosen), pixels, axis=1), pixels, axis=2)


class TensorFlowImageClassifier:
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        self.hyper, self.data, self.seed = hyper, data, seed
        self.device = device_name(device)
        self.dtype, self.scale = DTYPES[device.precision], loss_scale(device.precision, FP16_LOSS_SCALE)
        channels, classes = data["train_images"].shape[-1], 10
        initial = initial_parameters(hyper, channels, classes, seed)
        self.batches: Iterator[Batch] | None = None
        self.images = Kept(lambda data: self.to_device(normalise(data["test_images"], hyper)))
        self.p: Parameters = {}
        self.momenta: Parameters = {}
        with tf.device(self.device):
            for name, value in initial.items():
                self.p[name] = tf.Variable(old_from_torch(value), name=name)
                if name != "whiten_weight" and not name.endswith(("_mean", "_variance")):
                    self.momenta[name] = tf.Variable(tf.zeros_like(self.p[name]), name=f"momentum/{name}")
        self.graph_step = tf.function(self._graph_step, reduce_retracing=False)
        several = tf.TensorSpec((None, *data["train_images"].shape[1:]))
        self.graph_logits = tf.function(self._graph_logits, [several])
        self.load_state_dict({**initial, "step": np.array(0)})

    def train_until(self, samples: int) -> TrainStats:
        """Take whole steps until `samples` samples have been seen."""
        if self.batches is None:
            data = Batches(self.data["train_images"], self.data["train_labels"], self.hyper, self.seed)
            if self.step == 0:
                self.p["whiten_weight"].assign(old_from_torch(whitening(data.whitening_images())))
            self.batches = data.iterate(self.step)
        size = self.hyper.global_batch_size
        while True:
            batch = next(self.batches)
            loss = self.train_step(batch.images, batch.labels, batch.epoch)
            self.step += 1
            if self.step * size >= samples:
                return TrainStats(self.step * size, float(loss) / size)

    def train_step(self, images: np.ndarray, labels: np.ndarray, epoch: float) -> tf.Tensor:
        """One step on images float32 [B, S, S, C] and labels [B]; the loss summed over the batch."""
        rates = np.array([self.hyper.learning_rate(epoch), self.hyper.whiten_learning_rate(epoch)], np.float32)
        with tf.device(self.device):
            return self.graph_step(tf.constant(images), tf.constant(labels), tf.constant(rates))

    def _graph_step(self, images: tf.Tensor, labels: tf.Tensor, rates: tf.Tensor) -> tf.Tensor:
        trained = {name: self.p[name] for name in self.momenta}
        with tf.GradientTape() as tape:
            logits = network(self.p, tf.cast(images, self.dtype), True, self.hyper.norm_momentum)
            classes = logits.shape[1]
            smooth = self.hyper.label_smoothing
            targets = tf.one_hot(labels, classes) * (1 - smooth) + smooth / classes
            loss = tf.reduce_sum(tf.nn.softmax_cross_entropy_with_logits(targets, logits))
            scaled = loss * self.scale
        gradients = unscaled(tape.gradient(scaled, trained), self.scale)
        update(self.p, self.momenta, gradients, self.hyper, rates, self.dtype)
        return loss

    def logits(self, images: tf.Tensor) -> np.ndarray:
        """Logits float32 [N, classes] of images [N, S, S, C]; with flip, the mean of an image and its mirror."""
        with tf.device(self.device):
            outputs = [
                self.graph_logits(images[first : first + EVAL_BATCH]).numpy()
                for first in range(0, len(images), EVAL_BATCH)
            ]
        return np.concatenate(outputs)

    def _graph_logits(self, images: tf.Tensor) -> tf.Tensor:
        x = tf.cast(images, self.dtype)
        y = network(self.p, x, False, self.hyper.norm_momentum)
        if self.hyper.flip:
            y = (y + network(self.p, tf.reverse(x, [2]), False, self.hyper.norm_momentum)) / 2
        return y

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The class of each test image."""
        return [int(label) for label in classify(self.logits, part, self.images.of(data), self.hyper)]

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, statistics, momenta and the step."""
        state = {name: old_to_torch(value.numpy()) for name, value in self.p.items()}
        momenta = {f"momentum/{name}": old_to_torch(value.numpy()) for name, value in self.momenta.items()}
        return {**state, **momenta, "step": np.array(self.step)}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework; without momenta they start at zero."""
        for name, variable in self.p.items():
            variable.assign(old_from_torch(state[name]))
        for name, variable in self.momenta.items():
            variable.assign(old_from_torch(state.get(f"momentum/{name}", np.zeros_like(state[name]))))
        self.step = int(state["step"])
        self.batches = None

    def to_device(self, images: np.ndarray) -> tf.Tensor:
        """The images as a tensor."""
        with tf.device(self.device):
            return tf.constant(images)


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TensorFlowImageClassifier:
    """The implementation, traced and warmed up on random images of each size; its state is that of the seed."""
    hyper = Hyperparameters.of(hyperparameters)
    made = TensorFlowImageClassifier(hyper, data, seed, device)
    initial = made.state_dict()
    shape = data["train_images"].shape[1:]
    for size in sorted(set(hyper.epoch_sizes)):
        noise = np.random.default_rng(0).random((hyper.global_batch_size, size, size, shape[-1]), np.float32)
        made.train_step(noise, np.zeros(len(noise), np.int64), 0.0)
    classify(made.logits, part, made.to_device(np.zeros((EVAL_BATCH, *shape), np.float32)), hyper)
    made.load_state_dict(initial)
    return made
