"""Environments, stepped in processes of their own by a copy of the policy in numpy.

A GPU takes as long for eight observations as for a thousand: launches and copies take longer than the product itself.
On a CPU a framework's calls do (36 to 60 us in torch for 16 to 32 observations, 10 us in numpy). So the policy's
weights travel to the environments once an iteration, and the accelerator only learns. Processes are needed because
Box2D keeps Python's global lock; each plays its groups to the end of the iteration without waiting for the others. The
groups, and so the shapes of all products, do not depend on the number of processes: a seed gives the same log on any
number of cores.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from tasks.reinforcement_learning import FIRST_EVALUATION_SEED
from tasks.reinforcement_learning.episode import Episode

_EPISODE_STREAM, _ACTION_STREAM = 1, 2  # a run's random streams; shared.py has others
_GROUP = 8  # environments that are stepped together

Policy = Sequence[np.ndarray]  # weight [out, in] and bias [out] of each layer


def probabilities(policy: Policy, observations: np.ndarray) -> np.ndarray:
    """Of actions, float32 [N, A], after observations float32 [N, D]: a perceptron with tanh between its layers."""
    x = observations
    for weight, bias in zip(policy[:-2:2], policy[1:-2:2], strict=True):
        x = np.tanh(x @ weight.T + bias)
    x = x @ policy[-2].T + policy[-1]
    x = np.exp(x - x.max(1, keepdims=True))
    result: np.ndarray = x / x.sum(1, keepdims=True)
    return result


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

    @classmethod
    def empty(cls, steps: int, count: int, observation_size: int) -> Rollout:
        """A rollout of zeros, to be filled."""
        shape = steps, count
        observations, successors = np.zeros((2, *shape, observation_size), np.float32)
        terminated, over = np.zeros((2, *shape), bool)
        return cls(observations, np.zeros(shape, np.int64), np.zeros(shape, np.float32), successors, terminated, over)


class Group:
    """Environments that are stepped together; when an episode ends, the environment begins the next one.

    The seed of the n-th episode of an environment is a function of the run's seed; it is never an evaluation seed.
    """

    def __init__(self, name: str, numbers: Sequence[int], count: int, seed: int) -> None:
        self.name, self.numbers, self.count, self.seed = name, numbers, count, seed
        self.episodes = [Episode(name) for _ in numbers]
        self.ended = [0] * len(numbers)
        self.evaluated: list[Episode] = []
        for i in range(len(numbers)):
            self._begin(i)

    def _begin(self, i: int) -> None:
        random = np.random.default_rng([self.seed, _EPISODE_STREAM, self.numbers[i], self.ended[i]])
        self.episodes[i].begin(int(random.integers(FIRST_EVALUATION_SEED)))

    def rollout(self, policy: Policy, iteration: int, steps: int) -> Rollout:
        """Take `steps` steps in each environment, with actions drawn from their probabilities."""
        random = np.random.default_rng([self.seed, _ACTION_STREAM, iteration])
        draws = random.random((steps, self.count, 1), np.float32)[:, self.numbers]
        made = Rollout.empty(steps, len(self.numbers), self.episodes[0].observation_size)
        current = np.stack([episode.observation for episode in self.episodes])
        for t in range(steps):
            made.observations[t] = current
            below = draws[t] >= probabilities(policy, current).cumsum(1)[:, :-1]
            made.actions[t] = below.sum(1)
            for i, action in enumerate(made.actions[t].tolist()):
                episode = self.episodes[i]
                made.rewards[t, i] = episode.step(action)
                current[i] = made.successors[t, i] = episode.observation
                if episode.over:
                    made.terminated[t, i], made.over[t, i] = episode.terminated, True
                    self.ended[i] += 1
                    self._begin(i)
                    current[i] = episode.observation
        return made

    def evaluate(self, policy: Policy, seeds: Sequence[int]) -> list[str]:
        """The actions of the episode of each of `seeds`, always the most probable ones; ended episodes drop out."""
        self.evaluated += [Episode(self.name) for _ in seeds[len(self.evaluated) :]]
        running = episodes = self.evaluated[: len(seeds)]
        for episode, seed in zip(episodes, seeds, strict=True):
            episode.begin(seed)
        while running:
            chosen = probabilities(policy, np.stack([episode.observation for episode in running])).argmax(1)
            for episode, action in zip(running, chosen.tolist(), strict=True):
                episode.step(action)
            running = [episode for episode in running if not episode.over]
        return ["".join(map(str, episode.actions)) for episode in episodes]

    def state_dict(self) -> dict[str, np.ndarray]:
        """See `Environments.state_dict`."""
        actions = np.full((len(self.episodes), self.episodes[0].limit), -1, np.int8)
        for row, episode in zip(actions, self.episodes, strict=True):
            row[: len(episode.actions)] = episode.actions
        seeds = np.array([episode.seed for episode in self.episodes])
        return {"episodes_ended": np.array(self.ended), "episode_seeds": seeds, "episode_actions": actions}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """See `Environments.load_state_dict`; `state` has the rows of this group's environments only."""
        self.ended = state["episodes_ended"].tolist()
        begun = zip(self.episodes, state["episode_seeds"].tolist(), state["episode_actions"], strict=True)
        for episode, seed, actions in begun:
            episode.begin(seed, actions[actions >= 0].tolist())


# signals are for the harness, which still asks for the state: Ctrl-C and SLURM send them to all processes
_PROGRAM = f"""\
import signal, sys
for number in signal.SIGINT, signal.SIGTERM:
    signal.signal(number, signal.SIG_IGN)
sys.path[:] = sys.argv[1:]
from {__name__} import serve
serve()
"""


def serve() -> None:
    """Call methods of this process's groups on request, until the training process closes the pipe or is gone."""
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a package prints must not mix with results
    threadpool_limits(1)  # OpenBLAS's pool makes products this small slower, not faster
    groups: dict[int, Group] = {}
    while True:
        try:
            method, calls = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        if method == "make":
            groups, found = {i: Group(*arguments) for i, arguments in calls.items()}, None
        else:
            found = {i: getattr(groups[i], method)(*arguments) for i, arguments in calls.items()}
        pickle.dump(found, results, pickle.HIGHEST_PROTOCOL)
        results.flush()


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.kill()  # closing its pipe may not end it: a process that was forked since has the pipe as well
        process.communicate()


class Environments:
    """The groups of a worker's `own` environments, divided among `cpus` processes, at most one for each group."""

    def __init__(self, name: str, count: int, seed: int, cpus: int, own: slice = slice(None)) -> None:
        first = Episode(name)  # made here, so that the training process reports a missing package
        self.observation_size, self.action_count = first.observation_size, first.action_count
        numbers = range(count)[own]
        self.groups = [numbers[first : first + _GROUP] for first in range(0, len(numbers), _GROUP)]
        # -O: Gymnasium asserts at each step that the action is valid, a tenth of the time of LunarLander's
        command = [sys.executable, "-O", "-c", _PROGRAM, *sys.path]
        self.processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for _ in range(min(len(self.groups), cpus))
        ]
        weakref.finalize(self, _end, self.processes)
        self._each("make", [(name, numbers, count, seed) for numbers in self.groups])

    def _each(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of each group with its `arguments`; return the results.

        A process is asked once for all of its groups. Asked group by group, it would wait for its result to be read,
        while this process waits for it to read the next question: a pipe holds 64 KB.
        """
        for first, process in enumerate(self.processes):
            calls = {i: arguments[i] for i in range(first, len(self.groups), len(self.processes))}
            assert process.stdin
            pickle.dump((method, calls), process.stdin, pickle.HIGHEST_PROTOCOL)
            process.stdin.flush()
        found: dict[int, Any] = {}
        for process in self.processes:
            assert process.stdout
            found |= pickle.load(process.stdout) or {}
        return [found.get(i) for i in range(len(self.groups))]

    def rollout(self, policy: Policy, iteration: int, steps: int) -> Rollout:
        """Take `steps` steps in each environment, with actions drawn from their probabilities."""
        parts = self._each("rollout", [(policy, iteration, steps)] * len(self.groups))
        arrays = ([getattr(part, field.name) for part in parts] for field in fields(Rollout))
        return Rollout(*(np.concatenate(each, 1) for each in arrays))

    def evaluate(self, policy: Policy, seeds: np.ndarray) -> list[dict[str, Any]]:
        """The prediction of each evaluation episode, played with the most probable action."""
        count = len(self.groups)
        shares = [seeds[i::count].tolist() for i in range(count)]
        played = self._each("evaluate", [(policy, share) for share in shares])
        actions = {
            seed: line
            for share, lines in zip(shares, played, strict=True)
            for seed, line in zip(share, lines, strict=True)
        }
        return [{"seed": seed, "actions": actions[seed]} for seed in seeds.tolist()]

    def state_dict(self) -> dict[str, np.ndarray]:
        """Each environment's count of ended episodes; the running one's seed and actions [N, limit], padded with -1."""
        parts = self._each("state_dict", [()] * len(self.groups))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Replay the running episodes of a state up to where they were."""
        names = "episodes_ended", "episode_seeds", "episode_actions"
        self._each("load_state_dict", [({name: state[name][group] for name in names},) for group in self.groups])
