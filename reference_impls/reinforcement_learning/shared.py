"""What both frameworks share: hyperparameters, initial parameters, and the order of the minibatches, in numpy.

Everything is a function of the seed, the iteration and the actions taken, so a checkpoint needs no random state.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from reference_impls.recipe import Recipe

_INIT_STREAM, _ORDER_STREAM = 0, 3  # a run's random streams; environments.py has others


@dataclass(frozen=True)
class Hyperparameters(Recipe):
    """The fixed recipe; names follow MLPerf's log keys where there is one."""

    global_batch_size: int  # environment steps of an iteration, over all environments
    num_envs: int
    update_epochs: int  # passes over the steps of an iteration
    minibatch_size: int
    hidden_sizes: tuple[int, ...]  # widths of the hidden layers, of policy and value alike
    gamma: float  # discount
    gae_lambda: float  # of generalised advantage estimation
    reward_scale: float
    clip_coef: float  # of the ratio of new to old probability
    ent_coef: float  # weight of the entropy in the loss
    vf_coef: float  # weight of the value's error in the loss
    max_grad_norm: float
    opt_base_learning_rate: float
    opt_end_learning_rate: float  # as a fraction of the first
    opt_learning_rate_decay_samples: int
    opt_adam_beta_1: float
    opt_adam_beta_2: float
    opt_adam_epsilon: float

    def __post_init__(self) -> None:
        self.require_multiple_of("num_envs", "the environments that step together")
        self.require_multiple_of("minibatch_size", "the environment steps of a gradient step")

    @property
    def steps(self) -> int:
        """Steps of each environment in an iteration."""
        return self.global_batch_size // self.num_envs

    @property
    def updates(self) -> int:
        """Gradient steps of an iteration."""
        return self.update_epochs * (self.global_batch_size // self.minibatch_size)

    def learning_rate(self, iteration: int) -> float:
        """The learning rate of an iteration: it falls linearly over `opt_learning_rate_decay_samples`, then stays."""
        decayed = min(iteration * self.global_batch_size / max(self.opt_learning_rate_decay_samples, 1), 1.0)
        return self.opt_base_learning_rate * (1 - decayed * (1 - self.opt_end_learning_rate))


def initial_parameters(hyper: Hyperparameters, observation_size: int, actions: int, seed: int) -> dict[str, np.ndarray]:
    """Parameters float32 by PyTorch's names, weights [out, in]: orthogonal, of gain sqrt(2) in hidden layers, 0.01 for
    the policy's output and 1 for the value's (Andrychowicz et al. 2021); biases zero."""
    random = np.random.default_rng([seed, _INIT_STREAM])
    found = {}
    for network, outputs, last_gain in (("actor", actions, 0.01), ("critic", 1, 1.0)):
        widths = (observation_size, *hyper.hidden_sizes, outputs)
        for i, (fan_in, fan_out) in enumerate(pairwise(widths)):
            gain = last_gain if i == len(hyper.hidden_sizes) else np.sqrt(2)
            q, r = np.linalg.qr(random.normal(size=(max(fan_out, fan_in), min(fan_out, fan_in))))
            q *= np.sign(np.diag(r))
            weight = gain * (q if fan_out >= fan_in else q.T)
            found[f"{network}.{2 * i}.weight"] = np.ascontiguousarray(weight, np.float32)
            found[f"{network}.{2 * i}.bias"] = np.zeros(fan_out, np.float32)
    return found


def orders(seed: int, iteration: int, hyper: Hyperparameters) -> np.ndarray:
    """The steps of each minibatch of an iteration, int32 [updates, minibatch_size]."""
    random = np.random.default_rng([seed, _ORDER_STREAM, iteration])
    epochs = [random.permutation(hyper.global_batch_size) for _ in range(hyper.update_epochs)]
    return np.concatenate(epochs).reshape(-1, hyper.minibatch_size).astype(np.int32)
