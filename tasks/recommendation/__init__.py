"""Recommendation from implicit feedback: find the item each user took last among items the user never took.

A prediction is one user's ranking of the candidates `test_candidates[u]`, best first, as groups of item numbers:
`[[50], [7, 181], ...]` says that 7 and 181 have equal scores. It may end after any group; items that are left out
count as worse than all others. Ties count against the model: an item's rank is the number of items in the groups up
to and including its own. Arrays: see `tasks.recommendation.protocol.leave_one_out`.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from suite.errors import BadPrediction
from tasks.recommendation import generated
from tasks.recommendation.movielens import read_ratings
from tasks.recommendation.protocol import leave_one_out

METRICS = {"hr_10": (0.0, 1.0), "ndcg_10": (0.0, 1.0)}
CUTOFF = 10
NEGATIVES = 99


def prepare(scale: str, files: Path) -> dict[str, np.ndarray]:
    """The arrays of `mini` (a known latent-factor model) or `small` (MovieLens 100K)."""
    given = generated.interactions() if scale == "mini" else read_ratings(files / "ml-100k" / "u.data")
    return leave_one_out(given, NEGATIVES)


def split_sizes(data: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Users to evaluate. How many samples their histories make depends on the hyperparameter `lengths`."""
    return {"eval_samples": len(data["answer_items"])}


def score(predictions: Sequence[Any], data: Mapping[str, np.ndarray]) -> dict[str, float]:
    """`hr_10`, the fraction of users whose item is ranked 10th or better, and `ndcg_10`, the mean of 1/log2(1 + rank)
    of those ranks, 0 beyond.

    Raises BadPrediction for a prediction that is no ranking of the user's candidates, or when there is not one for
    each user.
    """
    candidates, answers = data["test_candidates"], data["answer_items"]
    if len(predictions) != len(answers):
        raise BadPrediction(0, f"{len(predictions)} predictions for {len(answers)} users")
    ranks = [
        _rank(prediction, set(allowed), answer, line)
        for line, (prediction, allowed, answer) in enumerate(
            zip(predictions, candidates.tolist(), answers.tolist(), strict=True), 1
        )
    ]
    gains = [1 / math.log2(1 + rank) if rank <= CUTOFF else 0.0 for rank in ranks]
    return {
        "hr_10": sum(rank <= CUTOFF for rank in ranks) / len(ranks),
        "ndcg_10": math.fsum(gains) / len(ranks),
    }


def _rank(prediction: Any, allowed: set[int], answer: int, line: int) -> int:
    """The rank of `answer` in a prediction, from 1; the number of candidates when it is not listed."""
    if not isinstance(prediction, list) or not all(isinstance(group, list) and group for group in prediction):
        raise BadPrediction(line, f"{reprlib.repr(prediction)} is not a list of non-empty groups of items")
    rank, listed = 0, 0
    unlisted = set(allowed)
    for group in prediction:
        for item in group:
            if type(item) is not int or item not in unlisted:
                again = type(item) is int and item in allowed
                problem = "is ranked twice" if again else "is not one of the user's candidates"
                raise BadPrediction(line, f"{reprlib.repr(item)} {problem}")
            unlisted.remove(item)
        listed += len(group)
        if answer in group:
            rank = listed
    return rank or len(allowed)
