"""Reinforcement learning in TensorFlow: the twin of `torch.py`; the gradient steps of an iteration are one graph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from reference_impls.kept import Kept
from reference_impls.reinforcement_learning.shared import (
    Environments,
    Evaluation,
    Hyperparameters,
    Rollout,
    initial_parameters,
    orders,
    shapes,
)
from reference_impls.tensorflow_shared import device_name
from suite.harness.implementation import Device, TrainStats

ACCELERATORS = 1


def network(layers: Sequence[tf.Tensor], x: tf.Tensor) -> tf.Tensor:
    """A perceptron with tanh between its layers; `layers` holds weight [out, in] and bias of each."""
    for weight, bias in zip(layers[:-2:2], layers[1:-2:2], strict=True):
        x = tf.tanh(tf.matmul(x, weight, transpose_b=True) + bias)
    return tf.matmul(x, layers[-2], transpose_b=True) + layers[-1]


class TensorFlowAgent:
    """The implementation; see `suite.harness.implementation.Implementation`. Networks this small run in fp32."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        self.hyper, self.seed = hyper, seed
        self.device = device_name(device)
        environment = str(data["environment"])
        self.environments = Environments(environment, hyper.num_envs, seed)
        self.evaluation = Kept(lambda data: Evaluation(environment, data["test_seeds"]))
        first = self.environments.episodes[0]
        self.layout = shapes(hyper, first.observation_size, first.action_count)
        parameters = initial_parameters(self.layout, seed)
        with tf.device(self.device):
            self.parameters = tf.Variable(parameters)
            self.mean, self.square = (tf.Variable(tf.zeros_like(parameters)) for _ in range(2))
        self.iteration = 0
        several = tf.TensorSpec([None, first.observation_size], tf.float32)
        self.graph_act = tf.function(self._act, [several])
        self.graph_values = tf.function(self._values, [several])
        self.graph_update = tf.function(self._update, jit_compile=True)

    def networks(self) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """The layers of the policy and of the value, parts of the vector of parameters."""
        flat = tf.split(self.parameters, [math.prod(shape) for shape in self.layout])
        layers = [tf.reshape(part, shape) for part, shape in zip(flat, self.layout, strict=True)]
        return layers[: len(layers) // 2], layers[len(layers) // 2 :]

    def act(self, observations: np.ndarray) -> np.ndarray:
        """Probabilities float32 [N, actions] for observations float32 [N, D]."""
        with tf.device(self.device):
            probabilities: np.ndarray = self.graph_act(tf.constant(observations)).numpy()
        return probabilities

    def _act(self, observations: tf.Tensor) -> tf.Tensor:
        return tf.nn.softmax(network(self.networks()[0], observations))

    def values(self, observations: np.ndarray) -> np.ndarray:
        """Values float32 [...] of observations float32 [..., D]."""
        with tf.device(self.device):
            flat = tf.constant(observations.reshape(-1, observations.shape[-1]))
            values: np.ndarray = self.graph_values(flat).numpy()
        return values.reshape(observations.shape[:-1])

    def _values(self, observations: tf.Tensor) -> tf.Tensor:
        return network(self.networks()[1], observations)[:, 0]

    def train_until(self, samples: int) -> TrainStats:
        """Take whole iterations until `samples` environment steps have been taken."""
        size = self.hyper.global_batch_size
        while True:
            rollout = self.environments.rollout(self.act, self.iteration, self.hyper)
            loss = self.update(rollout)
            self.iteration += 1
            if self.iteration * size >= samples:
                return TrainStats(self.iteration * size, loss)

    def update(self, rollout: Rollout) -> float:
        """Improve policy and value on the steps of one iteration; the mean loss of its gradient steps."""
        hyper = self.hyper
        values = self.values(rollout.observations)
        advantages = rollout.advantages(values, self.values(rollout.successors), hyper)
        with tf.device(self.device):
            steps = [
                tf.constant(array.reshape(hyper.global_batch_size, *array.shape[2:]))
                for array in (rollout.observations, rollout.actions, advantages, advantages + values)
            ]
            rows = tf.constant(orders(self.seed, self.iteration, hyper))
            return float(self.graph_update(*steps, rows, tf.constant(hyper.learning_rates(self.iteration))))

    def _update(
        self,
        observations: tf.Tensor,
        actions: tf.Tensor,
        advantage: tf.Tensor,
        target: tf.Tensor,
        rows: tf.Tensor,
        rates: tf.Tensor,
    ) -> tf.Tensor:
        logs = tf.nn.log_softmax(network(self.networks()[0], observations))
        before = tf.gather(logs, actions, batch_dims=1)
        losses = tf.zeros(())
        for i in tf.range(self.hyper.updates):
            parts = [tf.gather(whole, rows[i]) for whole in (observations, actions, advantage, target, before)]
            with tf.GradientTape() as tape:
                loss = self.loss(*parts)
            self.step(tape.gradient(loss, self.parameters), rates[i])
            losses += loss
        return losses / self.hyper.updates

    def loss(
        self, observations: tf.Tensor, actions: tf.Tensor, advantage: tf.Tensor, target: tf.Tensor, before: tf.Tensor
    ) -> tf.Tensor:
        """The clipped surrogate, the squared error of the value and the entropy, weighted (Schulman et al. 2017)."""
        policy, value = self.networks()
        logs = tf.nn.log_softmax(network(policy, observations))
        ratio = tf.exp(tf.gather(logs, actions, batch_dims=1) - before)
        advantage = (advantage - tf.reduce_mean(advantage)) / (tf.math.reduce_std(advantage) + 1e-8)
        clipped = tf.clip_by_value(ratio, 1 - self.hyper.clip_coef, 1 + self.hyper.clip_coef)
        surrogate = tf.reduce_mean(tf.minimum(ratio * advantage, clipped * advantage))
        error = tf.reduce_mean((network(value, observations)[:, 0] - target) ** 2)
        entropy = -tf.reduce_mean(tf.reduce_sum(tf.exp(logs) * logs, 1))
        return self.hyper.vf_coef * error - surrogate - self.hyper.ent_coef * entropy

    def step(self, gradient: tf.Tensor, rate: tf.Tensor) -> None:
        """One step of Adam (Kingma and Ba 2015) on the gradient, shortened to `max_grad_norm`."""
        hyper = self.hyper
        gradient *= tf.minimum(hyper.max_grad_norm / (tf.norm(gradient) + 1e-6), 1.0)
        self.mean.assign_add((1 - hyper.opt_adam_beta_1) * (gradient - self.mean))
        self.square.assign_add((1 - hyper.opt_adam_beta_2) * (gradient * gradient - self.square))
        self.parameters.assign_sub(rate * self.mean / (tf.sqrt(self.square) + hyper.opt_adam_epsilon))

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The evaluation episodes."""
        return self.evaluation.of(data).play(self.act)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, Adam's moments, the iteration and the running episodes."""
        vectors = {"parameters": self.parameters, "adam_mean": self.mean, "adam_square": self.square}
        arrays = {name: vector.numpy() for name, vector in vectors.items()}
        return {**arrays, "iteration": np.array(self.iteration), **self.environments.state_dict()}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework."""
        for name, vector in {"parameters": self.parameters, "adam_mean": self.mean, "adam_square": self.square}.items():
            vector.assign(state[name])
        self.iteration = int(state["iteration"])
        self.environments.load_state_dict(state)


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TensorFlowAgent:
    """The implementation, traced, compiled and warmed up with made-up steps; its state is that of the seed."""
    made = TensorFlowAgent(Hyperparameters.of(hyperparameters), data, seed, device)
    initial = made.state_dict()
    made.act(np.zeros((made.hyper.num_envs, made.layout[0][1]), np.float32))
    made.update(made.environments.imagined(made.hyper))
    made.load_state_dict(initial)
    return made
