"""What both frameworks share: initial parameters, environments, random numbers, advantages and schedule, in numpy.

Everything is a function of the seed, the iteration and the actions taken, so a checkpoint needs no random state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from reference_impls.recipe import Recipe
from tasks.reinforcement_learning import FIRST_EVALUATION_SEED
from tasks.reinforcement_learning.episode import Episode

_INIT_STREAM, _EPISODE_STREAM, _ACTION_STREAM, _ORDER_STREAM = range(4)

Act = Callable[[np.ndarray], np.ndarray]  # observations float32 [N, D] -> probabilities of the actions float32 [N, A]


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

    @property
    def updates(self) -> int:
        """Gradient steps of an iteration."""
        return self.update_epochs * (self.global_batch_size // self.minibatch_size)

    def learning_rates(self, iteration: int) -> np.ndarray:
        """Adam's step sizes float32 [updates] of an iteration, corrected for moments that began at zero.

        The learning rate falls linearly over `opt_learning_rate_decay_samples`, then stays.
        """
        decayed = min(iteration * self.global_batch_size / self.opt_learning_rate_decay_samples, 1.0)
        rate = self.opt_base_learning_rate * (1 - decayed * (1 - self.opt_end_learning_rate))
        step = iteration * self.updates + np.arange(1, self.updates + 1)
        correction = np.sqrt(1 - self.opt_adam_beta_2**step) / (1 - self.opt_adam_beta_1**step)
        rates: np.ndarray = (rate * correction).astype(np.float32)
        return rates


def shapes(hyper: Hyperparameters, observation_size: int, actions: int) -> list[tuple[int, ...]]:
    """The shapes of all parameters in order: weight [out, in] and bias of each layer, policy, then value."""
    found: list[tuple[int, ...]] = []
    for outputs in (actions, 1):
        widths = (observation_size, *hyper.hidden_sizes, outputs)
        for fan_in, fan_out in pairwise(widths):
            found += [(fan_out, fan_in), (fan_out,)]
    return found


def initial_parameters(layout: Sequence[tuple[int, ...]], seed: int) -> np.ndarray:
    """All parameters as one vector float32: orthogonal weights, of gain sqrt(2) in hidden layers, 0.01 for the
    policy's output and 1 for the value's (Andrychowicz et al. 2021); biases zero."""
    random = np.random.default_rng([seed, _INIT_STREAM])
    last, parts = len(layout) // 2 - 2, []
    for i, shape in enumerate(layout):
        if len(shape) == 1:
            parts.append(np.zeros(shape))
            continue
        gain = 0.01 if i == last else 1.0 if i == len(layout) - 2 else np.sqrt(2)
        q, r = np.linalg.qr(random.normal(size=(max(shape), min(shape))))
        q *= np.sign(np.diag(r))
        parts.append(gain * (q if shape[0] >= shape[1] else q.T).ravel())
    return np.concatenate(parts).astype(np.float32)


@dataclass(frozen=True)
class Rollout:
    """The steps of an iteration: arrays [steps, N], observations [steps, N, D].

    `successors` are the observations that the actions led to, before the next episode began.
    """

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    successors: np.ndarray
    terminated: np.ndarray
    over: np.ndarray

    def advantages(self, values: np.ndarray, successor_values: np.ndarray, hyper: Hyperparameters) -> np.ndarray:
        """Generalised advantage estimates float32 [steps, N] (Schulman et al. 2016).

        An episode that the time limit cut goes on in the value of its last observation.
        """
        future = hyper.gamma * np.where(self.terminated, 0, successor_values)
        errors = hyper.reward_scale * self.rewards + future - values
        decay = hyper.gamma * hyper.gae_lambda * ~self.over
        found, after = np.empty(errors.shape, np.float32), np.zeros(errors.shape[1])
        for t in reversed(range(len(errors))):
            found[t] = after = errors[t] + decay[t] * after
        return found


class Environments:
    """Environments side by side; the end of an episode is followed by the beginning of the next one.

    The seed of the n-th episode of an environment is a function of the run's seed; it is never an evaluation seed.
    """

    def __init__(self, name: str, count: int, seed: int) -> None:
        self.seed = seed
        self.episodes = [Episode(name) for _ in range(count)]
        self.ended = [0] * count
        for i in range(count):
            self._begin(i)

    def _begin(self, i: int) -> None:
        random = np.random.default_rng([self.seed, _EPISODE_STREAM, i, self.ended[i]])
        self.episodes[i].begin(int(random.integers(FIRST_EVALUATION_SEED)))

    def rollout(self, act: Act, iteration: int, hyper: Hyperparameters) -> Rollout:
        """Take `global_batch_size` steps with actions drawn from the probabilities that `act` gives."""
        count = len(self.episodes)
        steps = hyper.global_batch_size // count
        draws = np.random.default_rng([self.seed, _ACTION_STREAM, iteration]).random((steps, count, 1), np.float32)
        observations = np.empty((steps + 1, count, self.episodes[0].observation_size), np.float32)
        successors = np.empty_like(observations[1:])
        actions = np.empty((steps, count), np.int64)
        rewards = np.empty((steps, count))
        terminated, over = np.empty((2, steps, count), bool)
        observations[0] = [episode.observation for episode in self.episodes]
        for t in range(steps):
            below = draws[t] >= act(observations[t]).cumsum(1)[:, :-1]
            actions[t] = below.sum(1)
            for i, action in enumerate(actions[t].tolist()):
                episode = self.episodes[i]
                rewards[t, i] = episode.step(action)
                successors[t, i] = episode.observation
                terminated[t, i], over[t, i] = episode.terminated, episode.over
                if episode.over:
                    self.ended[i] += 1
                    self._begin(i)
                observations[t + 1, i] = episode.observation
        return Rollout(observations[:-1], actions, rewards, successors, terminated, over)

    def imagined(self, hyper: Hyperparameters) -> Rollout:
        """Made-up steps in the shapes of an iteration's, to warm up with."""
        shape = hyper.global_batch_size // len(self.episodes), len(self.episodes)
        noise = np.random.default_rng(0).random((*shape, self.episodes[0].observation_size), np.float32)
        never = np.zeros(shape, bool)
        return Rollout(noise, np.zeros(shape, np.int64), noise[..., 0], noise, never, never)

    def state_dict(self) -> dict[str, np.ndarray]:
        """How many episodes each environment has ended; seed and actions [N, limit] of those that run, padded by -1."""
        actions = np.full((len(self.episodes), self.episodes[0].limit), -1, np.int8)
        for row, episode in zip(actions, self.episodes, strict=True):
            row[: len(episode.actions)] = episode.actions
        seeds = np.array([episode.seed for episode in self.episodes])
        return {"episodes_ended": np.array(self.ended), "episode_seeds": seeds, "episode_actions": actions}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Play the running episodes of a state again, to where they were."""
        self.ended = state["episodes_ended"].tolist()
        begun = zip(self.episodes, state["episode_seeds"].tolist(), state["episode_actions"], strict=True)
        for episode, seed, actions in begun:
            episode.begin(seed, actions[actions >= 0].tolist())


def orders(seed: int, iteration: int, hyper: Hyperparameters) -> np.ndarray:
    """The steps of each minibatch of an iteration, int64 [updates, minibatch_size]."""
    random = np.random.default_rng([seed, _ORDER_STREAM, iteration])
    epochs = [random.permutation(hyper.global_batch_size) for _ in range(hyper.update_epochs)]
    return np.concatenate(epochs).reshape(-1, hyper.minibatch_size)


class Evaluation:
    """The evaluation episodes, played side by side with the most probable action; those that end leave."""

    def __init__(self, name: str, seeds: np.ndarray) -> None:
        self.seeds: list[int] = seeds.tolist()
        self.episodes = [Episode(name) for _ in self.seeds]

    def play(self, act: Act) -> list[dict[str, Any]]:
        """The prediction of each episode."""
        for episode, seed in zip(self.episodes, self.seeds, strict=True):
            episode.begin(seed)
        running = self.episodes
        while running:
            probabilities = act(np.stack([episode.observation for episode in running]))
            for episode, action in zip(running, probabilities.argmax(1).tolist(), strict=True):
                episode.step(action)
            running = [episode for episode in running if not episode.over]
        return [{"seed": episode.seed, "actions": "".join(map(str, episode.actions))} for episode in self.episodes]
