"""One episode of a Gymnasium environment: played once, and played again from its seed and its actions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from suite.errors import UserError


def make(name: str) -> Any:
    """The Gymnasium environment `name`. Raises UserError when it, or what it needs, is not installed."""
    try:
        import gymnasium
    except ModuleNotFoundError as error:
        raise _missing(name, error) from error
    try:
        return gymnasium.make(name, disable_env_checker=True)
    except gymnasium.error.Error as error:
        raise _missing(name, error) from error


def _missing(name: str, error: Exception) -> UserError:
    return UserError(
        f"the environment {name} cannot be made ({error}): "
        "pip install -c constraints.txt -e '.[reinforcement-learning]'"
    )


class Episode:
    """An environment without Gymnasium's wrappers, which cost as much as a CartPole step; its time limit is kept.

    `seed` and `actions` tell how the episode came to be where it is; `observation` float32 is what it shows now.
    """

    def __init__(self, name: str) -> None:
        wrapped = make(name)
        self.environment = wrapped.unwrapped
        self.limit: int = wrapped.spec.max_episode_steps
        self.action_count = int(wrapped.action_space.n)
        self.observation_size = int(wrapped.observation_space.shape[0])

    def begin(self, seed: int, actions: Iterable[int] = ()) -> None:
        """Start anew from `seed`, and take `actions`."""
        self.seed = seed
        self.actions: list[int] = []
        self.total = 0.0
        self.terminated = False
        self.observation: np.ndarray = self.environment.reset(seed=seed)[0]
        for action in actions:
            self.step(action)

    def step(self, action: int) -> float:
        """Take `action`, from 0 to `action_count` - 1; return the reward."""
        self.observation, reward, self.terminated, _, _ = self.environment.step(action)
        self.actions.append(action)
        self.total += float(reward)
        return float(reward)

    @property
    def over(self) -> bool:
        """Whether the episode has ended: in a terminal state (`terminated`), or at the time limit."""
        return self.terminated or len(self.actions) >= self.limit
