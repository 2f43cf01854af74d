"""Reinforcement learning in PyTorch: proximal policy optimization."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from reference_impls.reinforcement_learning.environments import Environments, Policy, Rollout
from reference_impls.reinforcement_learning.shared import Hyperparameters, initial_parameters, orders
from reference_impls.shares import part, require, share
from reference_impls.torch_shared import (
    all_at_once,
    clip_gradients,
    compiled,
    dtype,
    grad_scaler,
    load_state_dict,
    on_device,
    prepare,
    set_learning_rate,
    state_dict,
    torch_device,
    warm_ups,
)
from reference_impls.torch_workers import Workers
from suite.harness.implementation import Device, TrainStats

ACCELERATORS = 1024
PRECISIONS = ("fp32",)


class Tanh(nn.Module):
    """nn.Tanh by way of the sigmoid, for which PyTorch has faster code.

    For [512, 64] on one core (AMD EPYC), forward and backward: 90 us in place of 143.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The tanh of each element of `x`."""
        return 2 * torch.sigmoid(2 * x) - 1


def perceptron(*widths: int) -> nn.Sequential:
    """Linear layers with tanh between them."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out), Tanh()]
    return nn.Sequential(*layers[:-1])


class Agent(nn.Module):
    """The policy and the value."""

    def __init__(self, observation_size: int, actions: int, hidden_sizes: Sequence[int]) -> None:
        super().__init__()
        self.actor = perceptron(observation_size, *hidden_sizes, actions)
        self.critic = perceptron(observation_size, *hidden_sizes, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities of the actions [N, A] and values [N] of observations [N, D]."""
        return self.actor(x).log_softmax(1), self.critic(x).squeeze(1)


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch's operators run on one thread of the CPU.

    Products this small gain nothing by a second one, and where other programs run the two wait for each other: an
    iteration of LunarLander beside one busy process takes 0.33 s, in place of 2.9 to 5.3 (two cores of an Intel Xeon).
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class TorchAgent:
    """The implementation; see `suite.harness.implementation.Implementation`. Networks this small run in fp32."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        require(device, min(hyper.num_envs, hyper.minibatch_size), "environments")
        self.hyper, self.seed, self.worker = hyper, seed, device
        self.device = torch_device(device)
        dtype(device)  # a GPU might multiply fp32 as tf32
        own = part(hyper.num_envs, device)
        self.environments = Environments(str(data["environment"]), hyper.num_envs, seed, device.cpus, own)
        size, actions = self.environments.observation_size, self.environments.action_count
        self.workers = Workers(device)
        self.agent = Agent(size, actions, hyper.hidden_sizes).to(self.device)
        self.parallel = self.workers.parallel(self.agent)
        self.optimizer = torch.optim.Adam(
            self.agent.parameters(),
            lr=hyper.opt_base_learning_rate,
            betas=(hyper.opt_adam_beta_1, hyper.opt_adam_beta_2),
            eps=hyper.opt_adam_epsilon,
            **all_at_once(self.device),
        )
        prepare([self.optimizer])
        self.scaler = grad_scaler(self.device, torch.float32)
        self.prepared = compiled(self.prepare, self.device)
        self.loss_of = compiled(self.loss, self.device)
        # warmed up with made-up steps; then the state is that of the seed
        for _ in warm_ups(self.device):
            self.update(Rollout.empty(hyper.steps, hyper.num_envs, size), 0)
        self.load_model({**initial_parameters(hyper, size, actions, seed), "step": np.array(0)})

    def train_until(self, samples: int) -> TrainStats:
        """Take whole iterations until `samples` environment steps have been taken."""
        size = self.hyper.global_batch_size
        while True:
            own = self.environments.rollout(self.policy(), self.iteration, self.hyper.steps)
            rollout = Rollout(*(self.workers.gathered(torch.from_numpy(array), 1).numpy() for array in astuple(own)))
            loss = self.update(rollout, self.iteration)
            self.iteration += 1
            if self.iteration * size >= samples:
                return TrainStats(self.iteration * size, float(loss))

    def policy(self) -> Policy:
        """The actor's weights on the host, in one copy."""
        parameters = list(self.agent.actor.parameters())
        flat = nn.utils.parameters_to_vector(parameters).detach().cpu().numpy()
        parts = np.split(flat, np.cumsum([p.numel() for p in parameters])[:-1])
        return [part.reshape(p.shape) for part, p in zip(parts, parameters, strict=True)]

    @one_thread()
    def update(self, rollout: Rollout, iteration: int) -> torch.Tensor:
        """Improve policy and value on the steps of one iteration; return the mean loss of the gradient steps.

        Nothing here waits for the device: rollout and minibatches are sent once.
        """
        set_learning_rate(self.optimizer, self.hyper.learning_rate(iteration))
        steps = self.prepared(*(on_device(array, self.device) for array in astuple(rollout)))
        rows, losses = on_device(orders(self.seed, iteration, self.hyper), self.device), []
        for minibatch in self.minibatches(rows, *steps):
            loss = self.loss_of(*minibatch)
            loss.backward()  # type: ignore[no-untyped-call]
            clip_gradients(self.optimizer.param_groups[0]["params"], self.hyper.max_grad_norm)
            self.optimizer.step()
            self.optimizer.zero_grad()
            losses.append(loss.detach().clone())
        return torch.stack(losses).mean()

    @torch.no_grad()
    def prepare(
        self,
        observations: torch.Tensor,
        actions: torch.Tensor,
        rewards: torch.Tensor,
        successors: torch.Tensor,
        terminated: torch.Tensor,
        over: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        """Observations, actions, their log-probabilities, advantages and the value's targets, of all steps in a row.

        Advantages are by generalised advantage estimation (Schulman et al. 2016). Where the time limit cuts an episode,
        the value of its last observation stands for the rest.
        """
        hyper = self.hyper
        flat = observations.flatten(0, 1)
        logs, values = self.agent(flat)
        before = logs.gather(1, actions.view(-1, 1)).squeeze(1)
        following = self.agent.critic(successors).squeeze(2).masked_fill(terminated, 0)
        advantage = hyper.reward_scale * rewards + hyper.gamma * following - values.view_as(rewards)
        decay = hyper.gamma * hyper.gae_lambda * ~over
        # advantage[t] = error[t] + decay[t] * advantage[t + 1], all t at once: each round doubles the reach
        reach = 1
        while reach < len(rewards):
            later, on = (F.pad(x[reach:], (0, 0, 0, reach)) for x in (advantage, decay))
            advantage, decay = advantage + decay * later, decay * on
            reach *= 2
        advantage = advantage.flatten()
        return flat, actions.flatten(), before, advantage, advantage + values

    def minibatches(self, rows: torch.Tensor, *steps: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
        """The worker's share of the minibatches, the rows `rows` [updates, M] of what `prepare` returns.

        Over the whole minibatch of all workers, the advantages have mean 0 and deviation 1.
        """
        deviation, mean = torch.std_mean(steps[3][rows], 1, correction=0, keepdim=True)
        own = share(rows, self.worker, 1)
        observations, actions, before, advantage, target = (each[own] for each in steps)
        return zip(observations, actions, before, (advantage - mean) / (deviation + 1e-8), target, strict=True)

    def loss(
        self,
        observations: torch.Tensor,
        actions: torch.Tensor,
        before: torch.Tensor,
        advantage: torch.Tensor,
        target: torch.Tensor,
    ) -> torch.Tensor:
        """The clipped surrogate, the squared error of the value and the entropy, weighted (Schulman et al. 2017).

        For a minibatch of `minibatches`; with several workers, the mean of theirs is that of the whole minibatch.
        """
        hyper = self.hyper
        logs, values = self.parallel(observations)
        ratio = (logs.gather(1, actions[:, None]).squeeze(1) - before).exp()
        clipped = ratio.clamp(1 - hyper.clip_coef, 1 + hyper.clip_coef)
        surrogate = torch.minimum(ratio * advantage, clipped * advantage).mean()
        error = F.mse_loss(values, target)
        entropy = -(logs.exp() * logs).sum(1).mean() if hyper.ent_coef else 0.0
        result: torch.Tensor = hyper.vf_coef * error - surrogate - hyper.ent_coef * entropy
        return result * (len(values) * self.workers.size / hyper.minibatch_size)

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The evaluation episodes."""
        return self.environments.evaluate(self.policy(), share(data["test_seeds"], self.worker))

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, Adam's moments, the iteration and the running episodes."""
        model = state_dict(self.agent, [self.optimizer], self.scaler, self.iteration)
        running = {
            name: self.workers.gathered(torch.from_numpy(array)).numpy()
            for name, array in self.environments.state_dict().items()
        }
        return {**model, **running}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework."""
        self.load_model(state)
        self.environments.load_state_dict(state)

    def load_model(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state's parameters, moments and iteration."""
        self.iteration = load_state_dict(self.agent, [self.optimizer], self.scaler, state)


def build(hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device) -> TorchAgent:
    """The implementation, warmed up with made-up steps; its state comes from `seed`."""
    return TorchAgent(Hyperparameters.of(hyperparameters), data, seed, device)
