"""Language modelling in TensorFlow: the twin of `torch.py`, function by function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from reference_impls.kept import Kept
from reference_impls.language_modeling.shared import (
    EVAL_SEGMENT,
    FP16_LOSS_SCALE,
    Batch,
    Batches,
    Hyperparameters,
    initial_carry,
    initial_parameters,
    is_matrix,
    predictions,
    segments,
)
from reference_impls.language_modeling.tensorflow_network import (
    Carry,
    Parameters,
    distribution,
    log_probabilities,
    network,
    pointer,
)
from reference_impls.precision import loss_scale
from reference_impls.tensorflow_shared import DTYPES, device_name, orthogonalise, unscaled
from suite.harness.implementation import Device, TrainStats

ACCELERATORS = 1


def update(
    p: Parameters,
    momenta: Parameters,
    squares: Parameters,
    gradients: dict[str, tf.Tensor],
    hyper: Hyperparameters,
    rate: tf.Tensor,
    step: tf.Tensor,
    dtype: tf.DType,
) -> None:
    """One step: Muon for the layers' matrices, whose gates count as a matrix each; Adam for the other parameters.

    `rate` is the factor on the learning rates and `step` counts from 1, both float32 scalars.
    """
    first, second = hyper.opt_adam_beta_1, hyper.opt_adam_beta_2
    size = hyper.adam_learning_rate * rate / (1 - first**step)
    for name, momentum in momenta.items():
        parameter, gradient = p[name], gradients[name]
        if is_matrix(name):
            momentum.assign(hyper.muon_momentum * momentum + gradient)
            direction = gradient + hyper.muon_momentum * momentum
            blocks = tf.split(direction, direction.shape[0] // hyper.width)
            steps = tf.concat([orthogonalise(block, hyper.muon_steps, dtype) for block in blocks], 0)
            parameter.assign_sub(hyper.muon_learning_rate * rate * steps)
            continue
        square = squares[name]
        momentum.assign(first * momentum + (1 - first) * gradient)
        square.assign(second * square + (1 - second) * tf.square(gradient))
        parameter.assign_sub(size * momentum / (tf.sqrt(square / (1 - second**step)) + hyper.opt_adam_epsilon))


class TensorFlowLanguageModel:
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        self.hyper, self.data, self.seed = hyper, data, seed
        self.device = device_name(device)
        self.dtype, self.scale = DTYPES[device.precision], loss_scale(device.precision, FP16_LOSS_SCALE)
        self.batches: Iterator[Batch] | None = None
        self.segments = Kept(self.made_segments)
        self.step = 0
        initial = initial_parameters(hyper, len(data["vocabulary"]), seed)
        with tf.device(self.device):
            self.p = {name: tf.Variable(value, name=name) for name, value in initial.items()}
            self.momenta = {name: tf.Variable(tf.zeros_like(value)) for name, value in self.p.items()}
            self.squares = {n: tf.Variable(tf.zeros_like(v)) for n, v in self.p.items() if not is_matrix(n)}
            self.carry = {n: tf.Variable(value) for n, value in initial_carry(hyper, hyper.streams).items()}
        self.graph_step = tf.function(self._graph_step)
        self.graph_evaluate = tf.function(self._graph_evaluate, reduce_retracing=True)
        self.load_state_dict({**initial, "step": np.array(0)})

    def train_until(self, samples: int) -> TrainStats:
        """Take whole steps until `samples` words have been seen."""
        if self.batches is None:
            self.batches = Batches(self.data["train_tokens"], self.hyper, self.seed).iterate(self.step)
        size = self.hyper.global_batch_size
        while True:
            loss = self.train_step(next(self.batches))
            if self.step * size >= samples:
                return TrainStats(self.step * size, float(loss))

    def train_step(self, batch: Batch) -> tf.Tensor:
        """One step; the mean loss over the batch, in nats per word."""
        if batch.fresh:
            for name, value in initial_carry(self.hyper, self.hyper.streams).items():
                self.carry[name].assign(value)
        rate = tf.constant(self.hyper.learning_rate(self.step), tf.float32)
        self.step += 1
        with tf.device(self.device):
            arrays = (tf.constant(a) for a in (batch.words, batch.targets, batch.masks))
            return self.graph_step(*arrays, rate, tf.constant(self.step, tf.float32))

    def _graph_step(
        self, words: tf.Tensor, targets: tf.Tensor, masks: tf.Tensor, rate: tf.Tensor, step: tf.Tensor
    ) -> tf.Tensor:
        with tf.GradientTape() as tape:
            x, carry = network(self.p, words, self.carry, masks, self.hyper, self.dtype)
            pointed = pointer(self.p, x, words, self.carry, self.hyper, self.dtype)
            loss = -tf.reduce_mean(log_probabilities(self.p, x, targets, pointed, self.hyper, self.dtype))
            scaled = loss * self.scale
        computed = tape.gradient(scaled, self.p, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        gradients = unscaled(computed, self.scale)
        for name, value in carry.items():
            self.carry[name].assign(value)
        update(self.p, self.momenta, self.squares, gradients, self.hyper, rate, step, self.dtype)
        return loss

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The log-probabilities of the test text, read as one stream, and the audited distributions."""
        return predictions(self.read(self.segments.of(data)), len(data["test_tokens"]))

    def made_segments(self, data: Mapping[str, np.ndarray]) -> list[list[tf.Tensor]]:
        """The segments of the test text."""
        return self.on_device(segments(data["test_tokens"], self.data["vocabulary"], self.data["audit_positions"]))

    def on_device(self, parts: Sequence[Sequence[np.ndarray]]) -> list[list[tf.Tensor]]:
        """The arrays of segments as tensors."""
        with tf.device(self.device):
            return [[tf.constant(array) for array in part] for part in parts]

    def read(self, parts: Sequence[Sequence[tf.Tensor]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """The log-probabilities of the text and the audited distributions of successive segments."""
        found = []
        with tf.device(self.device):
            carry: Carry = {name: tf.constant(value) for name, value in initial_carry(self.hyper, 1).items()}
            for words, targets, audited in parts:
                of_text, rows, carry = self.graph_evaluate(words, targets, audited, carry)
                found.append((of_text.numpy(), rows.numpy()))
        return found

    def _graph_evaluate(
        self, words: tf.Tensor, targets: tf.Tensor, audited: tf.Tensor, carry: Carry
    ) -> tuple[tf.Tensor, tf.Tensor, Carry]:
        x, after = network(self.p, words[:, None], carry, None, self.hyper, self.dtype)
        pointed = pointer(self.p, x, words[:, None], carry, self.hyper, self.dtype)
        of_text = log_probabilities(self.p, x, targets[:, None], pointed, self.hyper, self.dtype)[:, 0]
        places, chosen, left = (tf.gather(a[:, 0], audited) for a in pointed)
        rows = distribution(self.p, tf.gather(x[:, 0], audited), (places, chosen, left), self.hyper, self.dtype)
        return of_text, rows, after

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, both moments, what the layers carry along the text, and the step."""
        named = {
            **self.p,
            **{f"momentum/{name}": value for name, value in self.momenta.items()},
            **{f"square/{name}": value for name, value in self.squares.items()},
            **{f"carry/{name}": value for name, value in self.carry.items()},
        }
        return {**{name: value.numpy() for name, value in named.items()}, "step": np.array(self.step)}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework; without moments and carry they start at zero."""
        for name, variable in self.p.items():
            variable.assign(state[name])
        for kind, variables in (("momentum", self.momenta), ("square", self.squares)):
            for name, variable in variables.items():
                variable.assign(state.get(f"{kind}/{name}", np.zeros_like(state[name])))
        for name, value in initial_carry(self.hyper, self.hyper.streams).items():
            self.carry[name].assign(state.get(f"carry/{name}", value))
        self.step = int(state["step"])
        self.batches = None


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TensorFlowLanguageModel:
    """The implementation, traced and warmed up on random words; its state is that of the seed."""
    hyper = Hyperparameters.of(hyperparameters)
    made = TensorFlowLanguageModel(hyper, data, seed, device)
    initial = made.state_dict()
    random = np.random.default_rng(0)
    random_words = random.integers(0, len(data["vocabulary"]), 2 * hyper.global_batch_size)
    for _ in range(2):
        made.train_step(next(Batches(random_words, hyper, seed).iterate(0)))
    random_words = random.integers(0, len(data["vocabulary"]), 2 * EVAL_SEGMENT)  # one segment of them is audited
    made.read(made.on_device(segments(random_words, data["vocabulary"], np.array([0]))))
    made.load_state_dict(initial)
    return made
