"""Reinforcement learning: act in an environment; the quality is the mean return of 100 evaluation episodes.

A prediction is one episode: `{"seed": its seed, "actions": a digit for each step}`. Scoring plays the actions
again. The one array (of both scales) is `environment`, the name of a Gymnasium environment with fewer than ten actions.
Seeds below FIRST_EVALUATION_SEED are for training; from the others each run's evaluation episodes are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from suite.errors import BadPrediction
from tasks.reinforcement_learning.episode import Episode

METRICS = {
    "mean_return": (-math.inf, math.inf),
    "return_deviation": (0.0, math.inf),
    "mean_length": (0.0, math.inf),
}
FIRST_EVALUATION_SEED = 2**30
EVALUATION_EPISODES = 100

_ENVIRONMENTS = {"mini": "CartPole-v1", "small": "LunarLander-v3"}


def prepare(scale: str, files: Path) -> dict[str, np.ndarray]:
    """The environment's name."""
    return {"environment": np.array(_ENVIRONMENTS[scale])}


def split_sizes(data: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Episodes of the evaluation; those of the training are played while training."""
    return {"eval_samples": EVALUATION_EPISODES}


def evaluation_arrays(data: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """`test_seeds` int64 [100], the seeds of a run's evaluation episodes: distinct, below 2 * FIRST_EVALUATION_SEED.

    They come from PCG64's raw stream, which numpy keeps the same in all its versions.
    """
    raw = np.random.PCG64(seed).random_raw(2 * EVALUATION_EPISODES) % np.uint64(FIRST_EVALUATION_SEED)
    distinct = list(dict.fromkeys(raw.tolist()))[:EVALUATION_EPISODES]
    return {"test_seeds": FIRST_EVALUATION_SEED + np.array(distinct, np.int64)}


def score(predictions: Sequence[Any], data: Mapping[str, np.ndarray]) -> dict[str, float]:
    """`{"mean_return": ..., "return_deviation": ..., "mean_length": ...}` of the episodes, played again.

    Raises BadPrediction for a prediction that is not the whole episode of its seed, or when one is missing; UserError
    when the environment is not installed.
    """
    seeds = data["test_seeds"].tolist()
    if len(predictions) != len(seeds):
        raise BadPrediction(0, f"{len(predictions)} episodes for {len(seeds)} seeds")
    episode = Episode(str(data["environment"]))
    returns, lengths = [], []
    for line, (prediction, seed) in enumerate(zip(predictions, seeds, strict=True), 1):
        actions = _actions(line, prediction, seed, episode)
        episode.begin(seed)
        for taken, action in enumerate(actions):
            if episode.over:
                raise BadPrediction(line, f"{len(actions)} actions in an episode that ends after {taken}")
            episode.step(action)
        if not episode.over:
            raise BadPrediction(line, f"the episode is not over after {len(actions)} actions")
        returns.append(episode.total)
        lengths.append(len(actions))
    return {
        "mean_return": float(np.mean(returns)),
        "return_deviation": float(np.std(returns)),
        "mean_length": float(np.mean(lengths)),
    }


def _actions(line: int, prediction: Any, seed: int, episode: Episode) -> list[int]:
    """The actions of a prediction, which may be anything. Raises BadPrediction if it is not of the right form."""
    if not isinstance(prediction, dict) or prediction.keys() != {"seed", "actions"}:
        raise BadPrediction(line, f"a {type(prediction).__name__} that is not an episode with seed and actions")
    if type(prediction["seed"]) is not int or prediction["seed"] != seed:
        raise BadPrediction(line, f"an episode of another seed than {seed}")
    actions = prediction["actions"]
    allowed = "".join(map(str, range(episode.action_count)))
    if type(actions) is not str or len(actions) > episode.limit or not set(actions) <= set(allowed):
        raise BadPrediction(line, f"actions that are not at most {episode.limit} digits of {allowed}")
    return [int(digit) for digit in actions]
