"""Recommendation in TensorFlow: the twin of `torch.py`, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from reference_impls.kept import Kept
from reference_impls.precision import loss_scale
from reference_impls.recommendation.shared import (
    FP16_LOSS_SCALE,
    Batch,
    Histories,
    Hyperparameters,
    Question,
    initial_parameters,
    made_up_batches,
    rank,
)
from reference_impls.tensorflow_shared import DTYPES, device_name, unscaled
from suite.harness.implementation import Device, TrainStats

ACCELERATORS = 1
Parameters = dict[str, tf.Variable]


def network(
    p: Parameters, inputs: tf.Tensor, keep: tf.Tensor | None, hyper: Hyperparameters, dtype: tf.DType
) -> tf.Tensor:
    """What the user is looking for after each position, [B, L, hidden], from `inputs` [B, L].

    `keep` [1 + 2 layers, B, L, hidden] are dropout masks; None: no dropout.
    """

    def linear(x: tf.Tensor, name: str) -> tf.Tensor:
        return tf.matmul(x, tf.cast(p[f"{name}_weight"], dtype)) + tf.cast(p[f"{name}_bias"], dtype)

    def norm(x: tf.Tensor, name: str) -> tf.Tensor:
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        return tf.cast((x - mean) * tf.math.rsqrt(variance + 1e-5) * p[f"{name}_scale"] + p[f"{name}_bias"], dtype)

    def dropout(x: tf.Tensor, site: int) -> tf.Tensor:
        return x if keep is None else x * tf.cast(keep[site], tf.float32) * (1 / (1 - hyper.dropout))

    batch, length = inputs.shape
    d, heads = hyper.hidden_size, hyper.heads
    past = tf.linalg.band_part(tf.ones((length, length), tf.bool), -1, 0)
    x = dropout(tf.gather(p["item_embedding"], inputs) + p["position_embedding"][:length], 0)
    for layer in range(hyper.layers):
        qkv = linear(norm(x, f"layer{layer}_attention_norm"), f"layer{layer}_qkv")
        q, k, v = tf.unstack(tf.transpose(tf.reshape(qkv, (batch, length, 3, heads, d // heads)), (2, 0, 3, 1, 4)))
        attention = tf.cast(tf.matmul(q, k, transpose_b=True), tf.float32) * (heads / d) ** 0.5
        attention = tf.cast(tf.nn.softmax(tf.where(past, attention, -np.inf)), dtype)
        mixed = tf.reshape(tf.transpose(tf.matmul(attention, v), (0, 2, 1, 3)), (batch, length, d))
        x += dropout(tf.cast(linear(mixed, f"layer{layer}_out"), tf.float32), 2 * layer + 1)
        y = tf.nn.gelu(linear(norm(x, f"layer{layer}_mlp_norm"), f"layer{layer}_up"))
        x += dropout(tf.cast(linear(y, f"layer{layer}_down"), tf.float32), 2 * layer + 2)
    return norm(x, "norm")


def mean_loss(p: Parameters, batch: dict[str, tf.Tensor], hyper: Hyperparameters, dtype: tf.DType) -> tf.Tensor:
    """Cross-entropy of the targets among all items that the user has not taken yet."""
    hidden = network(p, batch["inputs"], batch["keep"], hyper, dtype)
    weight, bias = tf.cast(p["item_embedding"][:-1], dtype), p["item_bias"]
    positions = tf.range(hidden.shape[1])
    taken = tf.cast(batch["taken"], tf.int32)[:, None, :] <= positions[:, None]
    logits = tf.cast(tf.matmul(hidden, weight, transpose_b=True), tf.float32) + bias
    logits = tf.where(taken, -1e9, logits)
    targets = batch["targets"]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(targets, 0), logits)
    counted = tf.cast(targets >= 0, tf.float32)
    return tf.reduce_sum(losses * counted) / tf.reduce_sum(counted)


def adamw(
    p: Parameters,
    moments: Parameters,
    gradients: Mapping[str, tf.Tensor],
    hyper: Hyperparameters,
    rate: tf.Tensor,
    step: tf.Tensor,
) -> None:
    """Step `step`, from 1 (Loshchilov and Hutter 2019); vectors do not decay."""
    first, second = hyper.opt_adamw_beta_1, hyper.opt_adamw_beta_2
    for name, parameter in p.items():
        gradient = gradients[name]
        mean, square = moments[f"mean/{name}"], moments[f"square/{name}"]
        mean.assign(mean + (1 - first) * (gradient - mean))
        square.assign(square + (1 - second) * (gradient * gradient - square))
        decay = rate * hyper.opt_adamw_weight_decay if len(parameter.shape) > 1 else 0.0
        deviation = tf.sqrt(square / (1 - second**step)) + hyper.opt_adamw_epsilon
        parameter.assign(parameter * (1 - decay) - rate / (1 - first**step) * mean / deviation)


class TensorFlowRecommender:
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        self.hyper, self.data, self.seed = hyper, data, seed
        self.device = device_name(device)
        self.dtype, self.scale = DTYPES[device.precision], loss_scale(device.precision, FP16_LOSS_SCALE)
        self.histories: Histories | None = None
        self.batches: Iterator[Batch] | None = None
        self.questions = Kept(self.made_questions)
        initial = initial_parameters(hyper, len(data["item_ids"]), seed)
        with tf.device(self.device):
            self.p = {name: tf.Variable(value, name=name) for name, value in initial.items()}
            self.moments = {
                f"{moment}/{name}": tf.Variable(tf.zeros_like(value), name=f"{moment}/{name}")
                for name, value in initial.items()
                for moment in ("mean", "square")
            }
        self.graph_step = tf.function(self._graph_step, jit_compile=True)
        size = hyper.global_batch_size
        last, several = tf.TensorSpec((size,), tf.int64), tf.TensorSpec((size, None), tf.int32)
        self.graph_scores = {
            length: tf.function(self._graph_scores, [tf.TensorSpec((size, length), tf.int32), last, several])
            for length in hyper.lengths
        }
        self.load_state_dict({**initial, "step": np.array(0)})

    def train_until(self, samples: int) -> TrainStats:
        """Take whole steps until `samples` samples have been seen."""
        if self.batches is None:
            self.batches = self.known().batches(self.step)
        size = self.hyper.global_batch_size
        while True:
            rate = self.hyper.learning_rate(self.step, self.known().steps_per_epoch)
            loss = self.train_step(next(self.batches), rate)
            if self.step * size >= samples:
                return TrainStats(self.step * size, float(loss))

    def known(self) -> Histories:
        """The training data, read at the first call."""
        if self.histories is None:
            self.histories = Histories(self.data, self.hyper, self.seed)
        return self.histories

    def train_step(self, batch: Batch, rate: float) -> tf.Tensor:
        """One step; its mean loss."""
        self.step += 1
        with tf.device(self.device):
            arrays = {name: self.on_device(array) for name, array in vars(batch).items()}
            return self.graph_step(arrays, tf.constant(rate, tf.float32), tf.constant(self.step, tf.float32))

    def _graph_step(self, batch: dict[str, tf.Tensor], rate: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = mean_loss(self.p, batch, self.hyper, self.dtype)
            scaled = loss * self.scale
        gradients = unscaled(tape.gradient(scaled, self.p), self.scale)
        adamw(self.p, self.moments, gradients, self.hyper, rate, step)
        return loss

    def scores(self, inputs: tf.Tensor, last: tf.Tensor, candidates: tf.Tensor) -> np.ndarray:
        """Logits float32 [B, C] of candidates [B, C] after position `last` [B] of `inputs` [B, L]; in fp32."""
        with tf.device(self.device):
            logits: np.ndarray = self.graph_scores[inputs.shape[1]](inputs, last, candidates).numpy()
        return logits

    def _graph_scores(self, inputs: tf.Tensor, last: tf.Tensor, candidates: tf.Tensor) -> tf.Tensor:
        hidden = network(self.p, inputs, None, self.hyper, tf.float32)
        wanted = tf.gather(hidden, last, batch_dims=1)
        asked = tf.gather(self.p["item_embedding"], candidates)
        return tf.einsum("bd,bcd->bc", wanted, asked) + tf.gather(self.p["item_bias"], candidates)

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The ranking of each user's best candidates."""
        return rank((question, self.scores(*tensors)) for question, tensors in self.questions.of(data))

    def made_questions(self, data: Mapping[str, np.ndarray]) -> list[tuple[Question, list[tf.Tensor]]]:
        """The questions about the test candidates, each with what `scores` is given of it."""
        return [
            (each, [self.on_device(array) for array in (each.inputs, each.last, each.candidates)])
            for each in self.known().questions(data["test_candidates"])
        ]

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, AdamW's moments and the step."""
        variables = {**self.p, **self.moments}
        return {name: value.numpy() for name, value in variables.items()} | {"step": np.array(self.step)}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework; without moments they start at zero."""
        for name, variable in self.p.items():
            variable.assign(state[name])
        for name, variable in self.moments.items():
            variable.assign(state.get(name, np.zeros(variable.shape, np.float32)))
        self.step = int(state["step"])
        self.batches = None

    def on_device(self, values: np.ndarray) -> tf.Tensor:
        """The values as a tensor."""
        with tf.device(self.device):
            return tf.constant(values)


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TensorFlowRecommender:
    """The implementation, traced and warmed up on made-up histories of each length; its state is that of the seed."""
    hyper = Hyperparameters.of(hyperparameters)
    made = TensorFlowRecommender(hyper, data, seed, device)
    initial = made.state_dict()
    for batch in made_up_batches(hyper, len(data["item_ids"])):
        made.train_step(batch, 0.0)
        last = batch.targets[:, 0].astype(np.int64)
        made.scores(*(made.on_device(a) for a in (batch.inputs, last, batch.targets)))
    made.load_state_dict(initial)
    return made
