"""Reinforcement learning in PyTorch: proximal policy optimization, with all parameters in one vector."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

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
from reference_impls.torch_shared import to_numpy, torch_device
from suite.harness.implementation import Device, TrainStats

ACCELERATORS = 1


def network(layers: Sequence[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """A perceptron with tanh between its layers; `layers` holds weight and bias of each."""
    for weight, bias in zip(layers[:-2:2], layers[1:-2:2], strict=True):
        x = torch.tanh(F.linear(x, weight, bias))
    return F.linear(x, layers[-2], layers[-1])


class TorchAgent:
    """The implementation; see `suite.harness.implementation.Implementation`. Networks this small run in fp32."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        self.hyper, self.seed = hyper, seed
        self.device = torch_device(device)
        environment = str(data["environment"])
        self.environments = Environments(environment, hyper.num_envs, seed)
        self.evaluation = Kept(lambda data: Evaluation(environment, data["test_seeds"]))
        first = self.environments.episodes[0]
        self.layout = shapes(hyper, first.observation_size, first.action_count)
        parameters = initial_parameters(self.layout, seed)
        self.load_model(parameters, np.zeros_like(parameters), np.zeros_like(parameters), 0)

    def load_model(self, parameters: np.ndarray, mean: np.ndarray, square: np.ndarray, iteration: int) -> None:
        """Take over parameters and Adam's moments, each one vector."""
        vectors = (torch.tensor(vector, device=self.device) for vector in (parameters, mean, square))
        self.parameters, self.mean, self.square = vectors
        self.parameters.requires_grad_()
        self.iteration = iteration

    def networks(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The layers of the policy and of the value, views of the vector of parameters."""
        flat = self.parameters.split_with_sizes([math.prod(shape) for shape in self.layout])
        layers = [part.view(shape) for part, shape in zip(flat, self.layout, strict=True)]
        return layers[: len(layers) // 2], layers[len(layers) // 2 :]

    @torch.no_grad()
    def act(self, observations: np.ndarray) -> np.ndarray:
        """Probabilities float32 [N, actions] for observations float32 [N, D]."""
        policy, _ = self.networks()
        return network(policy, torch.from_numpy(observations).to(self.device)).softmax(1).cpu().numpy()

    @torch.no_grad()
    def values(self, observations: np.ndarray) -> np.ndarray:
        """Values float32 [...] of observations float32 [..., D]."""
        _, value = self.networks()
        return network(value, torch.from_numpy(observations).to(self.device)).squeeze(-1).cpu().numpy()

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
        observations, actions, advantage, target = (
            torch.from_numpy(array.reshape(hyper.global_batch_size, *array.shape[2:])).to(self.device)
            for array in (rollout.observations, rollout.actions, advantages, advantages + values)
        )
        with torch.no_grad():
            policy, _ = self.networks()
            before = network(policy, observations).log_softmax(1).gather(1, actions[:, None])[:, 0]
        losses = []
        minibatches = orders(self.seed, self.iteration, hyper)
        for rows, rate in zip(minibatches, hyper.learning_rates(self.iteration), strict=True):
            at = torch.from_numpy(rows).to(self.device)
            loss = self.loss(observations[at], actions[at], advantage[at], target[at], before[at])
            (gradient,) = torch.autograd.grad(loss, self.parameters)
            self.step(gradient, float(rate))
            losses.append(loss.detach())
        return float(torch.stack(losses).mean())

    def loss(
        self,
        observations: torch.Tensor,
        actions: torch.Tensor,
        advantage: torch.Tensor,
        target: torch.Tensor,
        before: torch.Tensor,
    ) -> torch.Tensor:
        """The clipped surrogate, the squared error of the value and the entropy, weighted (Schulman et al. 2017)."""
        policy, value = self.networks()
        logs = network(policy, observations).log_softmax(1)
        ratio = (logs.gather(1, actions[:, None])[:, 0] - before).exp()
        advantage = (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-8)
        clipped = ratio.clamp(1 - self.hyper.clip_coef, 1 + self.hyper.clip_coef)
        surrogate = torch.minimum(ratio * advantage, clipped * advantage).mean()
        error = F.mse_loss(network(value, observations)[:, 0], target)
        entropy = -(logs.exp() * logs).sum(1).mean()
        return self.hyper.vf_coef * error - surrogate - self.hyper.ent_coef * entropy

    @torch.no_grad()
    def step(self, gradient: torch.Tensor, rate: float) -> None:
        """One step of Adam (Kingma and Ba 2015) on the gradient, shortened to `max_grad_norm`."""
        hyper = self.hyper
        gradient = gradient * (hyper.max_grad_norm / (gradient.norm() + 1e-6)).clamp(max=1.0)
        self.mean.lerp_(gradient, 1 - hyper.opt_adam_beta_1)
        self.square.lerp_(gradient * gradient, 1 - hyper.opt_adam_beta_2)
        self.parameters.sub_(rate * self.mean / (self.square.sqrt() + hyper.opt_adam_epsilon))

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The evaluation episodes."""
        return self.evaluation.of(data).play(self.act)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, Adam's moments, the iteration and the running episodes."""
        vectors = {"parameters": self.parameters, "adam_mean": self.mean, "adam_square": self.square}
        return {**to_numpy(vectors), "iteration": np.array(self.iteration), **self.environments.state_dict()}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework."""
        self.load_model(state["parameters"], state["adam_mean"], state["adam_square"], int(state["iteration"]))
        self.environments.load_state_dict(state)


def build(hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device) -> TorchAgent:
    """The implementation, warmed up with made-up steps; its state is that of the seed."""
    made = TorchAgent(Hyperparameters.of(hyperparameters), data, seed, device)
    initial = made.state_dict()
    made.act(np.zeros((made.hyper.num_envs, made.layout[0][1]), np.float32))
    made.update(made.environments.imagined(made.hyper))
    made.load_state_dict(initial)
    return made
