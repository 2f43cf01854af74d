"""Object detection in TensorFlow: the twin of `torch.py`, line by line. States keep PyTorch's layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from reference_impls.detection.decoding import records
from reference_impls.detection.shared import (
    FP16_LOSS_SCALE,
    Batch,
    Batches,
    Hyperparameters,
    evaluation_batches,
    initial_parameters,
    is_trained,
    normalise,
    patches,
    targets,
)
from reference_impls.kept import Kept
from reference_impls.precision import loss_scale
from reference_impls.tensorflow_shared import DTYPES, device_name, old_from_torch, old_to_torch, unscaled
from suite.harness.implementation import Device, TrainStats

ACCELERATORS = 1
EPSILON = 1e-5
ADAM_EPSILON = 1e-8
BETA_1 = 0.9
EVAL_BATCH = 8
Parameters = dict[str, tf.Variable]
TensorTargets = tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]


def network(p: Parameters, cells: tf.Tensor, hyper: Hyperparameters, training: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """Heat logits [B, h, w, classes] and sides in pixels [B, h, w, 4], both float32, of cells [B, h, w, s * s * C].

    Residual blocks at each level on the way down, one convolution at each on the way up (U-Net), one for the head.
    """

    def convolve(x: tf.Tensor, name: str, stride: int = 1) -> tf.Tensor:
        x = tf.nn.conv2d(x, tf.cast(p[f"{name}_weight"], x.dtype), stride, "SAME" if stride == 1 else "VALID")
        scale, bias, mean, variance = (p[f"{name}_{part}"] for part in ("scale", "bias", "mean", "variance"))
        x, batch_mean, batch_variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x,
            scale=scale,
            offset=bias,
            mean=tf.zeros([0]) if training else mean,
            variance=tf.zeros([0]) if training else variance,
            epsilon=EPSILON,
            is_training=training,
        )
        if training:
            mean.assign(hyper.norm_momentum * mean + (1 - hyper.norm_momentum) * batch_mean)
            variance.assign(hyper.norm_momentum * variance + (1 - hyper.norm_momentum) * batch_variance)
        return x

    x = cells
    levels: list[tf.Tensor] = []
    for level, blocks in enumerate(hyper.blocks):
        x = tf.nn.relu(convolve(x, f"down{level}", stride=2 if level else 1))
        for block in range(blocks):
            y = tf.nn.relu(convolve(x, f"block{level}_{block}_a"))
            x = tf.nn.relu(x + convolve(y, f"block{level}_{block}_b"))
        levels.append(x)
    for level in reversed(range(len(levels) - 1)):
        x = doubled(convolve(x, f"lateral{level}"))
        x = tf.nn.relu(x + levels[level])
        x = tf.nn.relu(convolve(x, f"up{level}"))
    x = tf.nn.relu(convolve(x, "head"))
    output = tf.cast(tf.nn.conv2d(x, tf.cast(p["output_weight"], x.dtype), 1, "VALID"), tf.float32) + p["output_bias"]
    return output[..., : hyper.classes], hyper.box_prior * tf.exp(output[..., hyper.classes :])


def doubled(x: tf.Tensor) -> tf.Tensor:
    """[B, h, w, C] at twice the resolution, each cell repeated."""
    batch, height, width, channels = x.shape
    wide = tf.broadcast_to(x[:, :, None, :, None], (batch, height, 2, width, 2, channels))
    return tf.reshape(wide, (batch, 2 * height, 2 * width, channels))


def loss_of(heat: tf.Tensor, sides: tf.Tensor, goal: TensorTargets, hyper: Hyperparameters) -> tf.Tensor:
    """CenterNet's focal loss of the heat plus TTFNet's weighted GIoU loss of the sides, per object."""
    true_heat, true_sides, weight, objects = goal
    score = tf.sigmoid(heat)
    hit = (1 - score) ** 2 * tf.math.log_sigmoid(heat)
    miss = (1 - true_heat) ** 4 * score**2 * tf.math.log_sigmoid(-heat)
    focal = -tf.reduce_sum(tf.where(true_heat == 1, hit, miss))
    giou = tf.reduce_sum(weight * giou_loss(sides, true_sides))
    return (focal + hyper.box_loss_weight * giou) / objects


def giou_loss(sides: tf.Tensor, true_sides: tf.Tensor) -> tf.Tensor:
    """One minus the generalised IoU (Rezatofighi et al. 2019) of boxes given by their sides [..., 4] around a point."""

    def area(of: tf.Tensor) -> tf.Tensor:
        return (of[..., 0] + of[..., 2]) * (of[..., 1] + of[..., 3])

    least = tf.minimum(sides, true_sides)
    extent = least[..., :2] + least[..., 2:]
    shared = tf.where(tf.reduce_all(extent > 0, -1), extent[..., 0] * extent[..., 1], 0.0)
    union = area(sides) + area(true_sides) - shared
    hull = area(tf.maximum(sides, true_sides))
    return 1 - shared / (union + 1e-7) + (hull - union) / (hull + 1e-7)


def update(
    p: Parameters, moments: Parameters, gradients: dict[str, tf.Tensor], hyper: Hyperparameters, factors: tf.Tensor
) -> None:
    """One step of AdamW; weight decay is for convolutions. `factors`: learning rate and bias corrections."""
    rate, correction_1, correction_2 = factors[0], factors[1], factors[2]
    for name, gradient in gradients.items():
        first, second = moments[f"first/{name}"], moments[f"second/{name}"]
        first.assign_add((gradient - first) * (1 - BETA_1))
        second.assign_add((gradient * gradient - second) * (1 - hyper.opt_adamw_beta_2))
        if len(p[name].shape) == 4:
            p[name].assign(p[name] * (1 - rate * hyper.opt_weight_decay))
        p[name].assign_sub(rate * (first / correction_1) / (tf.sqrt(second / correction_2) + ADAM_EPSILON))


class TensorFlowDetector:
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        self.hyper, self.data, self.seed = hyper, data, seed
        self.device = device_name(device)
        self.dtype, self.scale = DTYPES[device.precision], loss_scale(device.precision, FP16_LOSS_SCALE)
        self.batches: Iterator[Batch] | None = None
        self.evaluation = Kept(lambda data: [*map(self.to_device, evaluation_batches(data, EVAL_BATCH, hyper.stride))])
        self.p: Parameters = {}
        self.moments: Parameters = {}
        initial = initial_parameters(hyper, data["train_images"].shape[-1], seed)
        with tf.device(self.device):
            for name, value in initial.items():
                self.p[name] = tf.Variable(old_from_torch(value), trainable=is_trained(name))
                if is_trained(name):
                    for moment in (f"first/{name}", f"second/{name}"):
                        self.moments[moment] = tf.Variable(tf.zeros_like(self.p[name]))
        self.graph_step = tf.function(self._graph_step, reduce_retracing=False)
        self.graph_outputs = tf.function(self._graph_outputs)
        self.load_state_dict({**initial, "step": np.array(0)})

    def train_until(self, samples: int) -> TrainStats:
        """Take whole steps until `samples` samples have been seen."""
        if self.batches is None:
            self.batches = Batches(self.data, self.hyper, self.seed).iterate(self.step)
        while True:
            loss = self.train_step(next(self.batches))
            if self.step * self.hyper.global_batch_size >= samples:
                return TrainStats(self.step * self.hyper.global_batch_size, float(loss))

    def train_step(self, batch: Batch) -> tf.Tensor:
        """One step; the loss per object."""
        rate = self.hyper.learning_rate(self.step * self.hyper.global_batch_size)
        corrections = (1 - beta ** (self.step + 1) for beta in (BETA_1, self.hyper.opt_adamw_beta_2))
        goal = batch.targets
        with tf.device(self.device):
            loss = self.graph_step(
                tf.constant(batch.cells),
                tuple(tf.constant(a) for a in (goal.heat, goal.sides, goal.weight, goal.objects)),
                tf.constant([rate, *corrections], tf.float32),
            )
        self.step += 1
        return loss

    def _graph_step(self, cells: tf.Tensor, goal: TensorTargets, factors: tf.Tensor) -> tf.Tensor:
        trained = {name: variable for name, variable in self.p.items() if is_trained(name)}
        with tf.GradientTape() as tape:
            heat, sides = network(self.p, tf.cast(cells, self.dtype), self.hyper, training=True)
            loss = loss_of(heat, sides, goal, self.hyper)
            scaled = loss * self.scale
        gradients = unscaled(tape.gradient(scaled, trained), self.scale)
        update(self.p, self.moments, gradients, self.hyper, factors)
        return loss

    def outputs(self, cells: tf.Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Scores [B, h, w, classes] and sides [B, h, w, 4] of cells [B, h, w, C]."""
        with tf.device(self.device):
            score, sides = self.graph_outputs(cells)
        return score.numpy(), sides.numpy()

    def _graph_outputs(self, cells: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        heat, sides = network(self.p, tf.cast(cells, self.dtype), self.hyper, training=False)
        return tf.sigmoid(heat), sides

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The COCO result records of each test image."""
        found: list[Any] = []
        for cells in self.evaluation.of(data):
            found += records(*self.outputs(cells), len(found), self.hyper)
        return found

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, statistics, moments and the step."""
        variables = {**self.p, **self.moments}
        return {name: old_to_torch(v.numpy()) for name, v in variables.items()} | {"step": np.array(self.step)}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework; without moments they start at zero."""
        for name, variable in self.p.items():
            variable.assign(old_from_torch(state[name]))
        for name, variable in self.moments.items():
            variable.assign(old_from_torch(state.get(name, np.zeros_like(state[name.partition("/")[2]]))))
        self.step = int(state["step"])
        self.batches = None

    def to_device(self, cells: np.ndarray) -> tf.Tensor:
        """The cells as a tensor."""
        with tf.device(self.device):
            return tf.constant(cells)


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TensorFlowDetector:
    """The implementation, traced and warmed up on noise without objects; its state is that of the seed."""
    hyper = Hyperparameters.of(hyperparameters)
    made = TensorFlowDetector(hyper, data, seed, device)
    initial = made.state_dict()
    size = hyper.global_batch_size
    shape = data["train_images"].shape
    noise = np.random.default_rng(0).integers(0, 256, (size, *shape[1:]), np.uint8)
    cells = patches(normalise(noise), hyper.stride)
    nothing = targets(np.zeros((size, 1, 4)), np.full((size, 1), -1), cells, hyper)
    made.train_step(Batch(cells, nothing))
    made.outputs(made.to_device(np.zeros((EVAL_BATCH, *cells.shape[1:]), np.float32)))
    made.load_state_dict(initial)
    return made
