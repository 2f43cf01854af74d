"""Reinforcement learning in TensorFlow: the twin of `torch.py`; all that is done with a rollout is one graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from reference_impls.reinforcement_learning.environments import Environments, Policy, Rollout
from reference_impls.reinforcement_learning.shared import Hyperparameters, initial_parameters, orders
from reference_impls.shares import part, require, share
from reference_impls.tensorflow_optimizers import AdamW, GradScaler, clipped
from reference_impls.tensorflow_shared import device_name, dtype, load_state_dict, state_dict
from reference_impls.tensorflow_workers import Workers
from suite.harness.implementation import Device, TrainStats

ACCELERATORS = 1024
PRECISIONS = ("fp32",)


class Agent(keras.Model):
    """The policy and the value: perceptrons with tanh between their layers."""

    def __init__(self, actions: int, hidden_sizes: Sequence[int]) -> None:
        super().__init__(name="agent")
        self.actor, self.critic = (
            [
                keras.layers.Dense(width, "tanh" if i < len(hidden_sizes) else None, name=f"{name}.{2 * i}")
                for i, width in enumerate((*hidden_sizes, outputs))
            ]
            for name, outputs in (("actor", actions), ("critic", 1))
        )

    def values(self, x: tf.Tensor) -> tf.Tensor:
        """Values [N] of observations [N, D]."""
        for layer in self.critic:
            x = layer(x)
        return tf.squeeze(x, 1)

    def call(self, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Log-probabilities of the actions [N, A] and values [N] of observations [N, D]."""
        logits = x
        for layer in self.actor:
            logits = layer(logits)
        return tf.nn.log_softmax(logits), self.values(x)


class TensorFlowAgent:
    """The implementation; see `suite.harness.implementation.Implementation`. Networks this small run in fp32."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        require(device, min(hyper.num_envs, hyper.minibatch_size), "environments")
        self.hyper, self.seed, self.worker = hyper, seed, device
        self.workers = Workers(device)
        self.device = device_name(device)
        own = part(hyper.num_envs, device)
        self.environments = Environments(str(data["environment"]), hyper.num_envs, seed, device.cpus, own)
        size, actions = self.environments.observation_size, self.environments.action_count
        with tf.device(self.device):
            self.agent = Agent(actions, hyper.hidden_sizes)
            self.agent(tf.zeros((1, size)))
            self.optimizer = AdamW(
                hyper.opt_base_learning_rate,
                weight_decay=0.0,
                beta_1=hyper.opt_adam_beta_1,
                beta_2=hyper.opt_adam_beta_2,
                epsilon=hyper.opt_adam_epsilon,
            )
            self.optimizer.build(self.agent.trainable_variables)
        self.scaler = GradScaler(enabled=False)
        self.graph = tf.function(self.improve, jit_compile=self.workers.size == 1)  # XLA cannot send
        self.gradients = tf.function(self._gradients, jit_compile=True, autograph=False)
        # traced, compiled and warmed up with made-up steps; then the state is that of the seed
        self.update(self.together(Rollout.empty(hyper.steps, own.stop - own.start, size)), 0)
        self.load_model({**initial_parameters(hyper, size, actions, seed), "step": np.array(0)})
        self.state_dict()  # traces the gathering of the state

    def train_until(self, samples: int) -> TrainStats:
        """Take whole iterations until `samples` environment steps have been taken."""
        size = self.hyper.global_batch_size
        while True:
            own = self.environments.rollout(self.policy(), self.iteration, self.hyper.steps)
            loss = self.update(self.together(own), self.iteration)
            self.iteration += 1
            if self.iteration * size >= samples:
                return TrainStats(self.iteration * size, float(loss))

    def together(self, own: Rollout) -> Rollout:
        """The rollouts of all workers' environments as one; `own` is this worker's."""
        return Rollout(*(self.workers.gathered(array, 1) for array in astuple(own)))

    def policy(self) -> Policy:
        """The actor's weights on the host."""
        variables = [variable for layer in self.agent.actor for variable in (layer.kernel, layer.bias)]
        return [variable.numpy().T for variable in variables]

    def update(self, rollout: Rollout, iteration: int) -> tf.Tensor:
        """Improve policy and value on the steps of one iteration; return the mean loss of the gradient steps."""
        rows, rate = orders(self.seed, iteration, self.hyper), np.float32(self.hyper.learning_rate(iteration))
        with tf.device(self.device):
            return self.graph(*(tf.constant(array) for array in (*astuple(rollout), rows, rate)))

    def improve(
        self,
        observations: tf.Tensor,
        actions: tf.Tensor,
        rewards: tf.Tensor,
        successors: tf.Tensor,
        terminated: tf.Tensor,
        over: tf.Tensor,
        rows: tf.Tensor,
        rate: tf.Tensor,
    ) -> tf.Tensor:
        """`update` on the device, in one graph."""
        steps = self.prepare(observations, actions, rewards, successors, terminated, over)
        variables = self.agent.trainable_variables
        self.optimizer.learning_rate.assign(rate)
        losses = tf.zeros(())
        minibatches = self.minibatches(rows, *steps)
        for i in tf.range(self.hyper.updates):
            loss, found = self.gradients(*(whole[i] for whole in minibatches))
            self.optimizer.apply(clipped(self.workers.averaged(found), self.hyper.max_grad_norm), variables)
            losses += loss
        return losses / self.hyper.updates

    def _gradients(self, *minibatch: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """The loss of a minibatch, and its gradients."""
        with tf.GradientTape() as tape:
            loss = self.loss(*minibatch)
        return loss, tape.gradient(loss, self.agent.trainable_variables)

    def prepare(
        self,
        observations: tf.Tensor,
        actions: tf.Tensor,
        rewards: tf.Tensor,
        successors: tf.Tensor,
        terminated: tf.Tensor,
        over: tf.Tensor,
    ) -> tuple[tf.Tensor, ...]:
        """Observations, actions, their log-probabilities, advantages and the value's targets, of all steps in a row.

        Advantages are by generalised advantage estimation (Schulman et al. 2016). Where the time limit cuts an episode,
        the value of its last observation stands for the rest.
        """
        hyper = self.hyper
        flat, after = (tf.reshape(x, (-1, x.shape[-1])) for x in (observations, successors))
        actions = tf.reshape(actions, [-1])
        logs, values = self.agent(flat)
        before = tf.gather(logs, actions, batch_dims=1)
        following = tf.where(terminated, 0.0, tf.reshape(self.agent.values(after), rewards.shape))
        advantage = hyper.reward_scale * rewards + hyper.gamma * following - tf.reshape(values, rewards.shape)
        decay = hyper.gamma * hyper.gae_lambda * tf.cast(~over, tf.float32)
        # advantage[t] = error[t] + decay[t] * advantage[t + 1], all t at once: each round doubles the reach
        reach = 1
        while reach < rewards.shape[0]:
            later, on = (tf.pad(x[reach:], ((0, reach), (0, 0))) for x in (advantage, decay))
            advantage, decay = advantage + decay * later, decay * on
            reach *= 2
        advantage = tf.reshape(advantage, [-1])
        return flat, actions, before, advantage, advantage + values

    def minibatches(self, rows: tf.Tensor, *steps: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """The worker's share of the minibatches, the rows `rows` [updates, M] of what `prepare` returns.

        Over the whole minibatch of all workers, the advantages have mean 0 and deviation 1.
        """
        whole, own = tf.gather(steps[3], rows), share(rows, self.worker, 1)
        mean, deviation = (f(whole, 1, keepdims=True) for f in (tf.reduce_mean, tf.math.reduce_std))
        observations, actions, before, advantage, target = (tf.gather(each, own) for each in steps)
        return observations, actions, before, (advantage - mean) / (deviation + 1e-8), target

    def loss(
        self, observations: tf.Tensor, actions: tf.Tensor, before: tf.Tensor, advantage: tf.Tensor, target: tf.Tensor
    ) -> tf.Tensor:
        """The clipped surrogate, the squared error of the value and the entropy, weighted (Schulman et al. 2017).

        For a minibatch of `minibatches`; with several workers, the mean of theirs is that of the whole minibatch.
        """
        hyper = self.hyper
        logs, values = self.agent(observations)
        ratio = tf.exp(tf.gather(logs, actions, batch_dims=1) - before)
        clipped = tf.clip_by_value(ratio, 1 - hyper.clip_coef, 1 + hyper.clip_coef)
        surrogate = tf.reduce_mean(tf.minimum(ratio * advantage, clipped * advantage))
        error = tf.reduce_mean((values - target) ** 2)
        entropy = -tf.reduce_mean(tf.reduce_sum(tf.exp(logs) * logs, 1)) if hyper.ent_coef else 0.0
        weight = observations.shape[0] * self.workers.size / hyper.minibatch_size
        return (hyper.vf_coef * error - surrogate - hyper.ent_coef * entropy) * weight

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The evaluation episodes."""
        return self.environments.evaluate(self.policy(), share(data["test_seeds"], self.worker))

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, Adam's moments, the iteration and the running episodes."""
        model = state_dict(self.agent, [self.optimizer], self.scaler, self.iteration)
        running = self.environments.state_dict().items()
        return {**model, **{name: self.workers.gathered(array) for name, array in running}}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework."""
        self.load_model(state)
        self.environments.load_state_dict(state)

    def load_model(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state's parameters, moments and iteration."""
        self.iteration = load_state_dict(self.agent, [self.optimizer], self.scaler, state)


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TensorFlowAgent:
    """The implementation, traced, compiled and warmed up with made-up steps; its state comes from `seed`."""
    dtype(device)  # a GPU would multiply fp32 as tf32
    return TensorFlowAgent(Hyperparameters.of(hyperparameters), data, seed, device)
