"""What simpler models reach: `python -m tasks.recommendation.baselines [mini|small]`.

ALS is that of `implicit` (pip install implicit==0.7.3), which the suite does not depend on. Settings were chosen on the
users' second to last interactions of MovieLens 100K (`--one-earlier`), as those of the reference were.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping

import numpy as np
from scipy.sparse import csr_matrix

from suite import config
from suite.errors import OneLineParser, UserError, command
from suite.store.arrays import prepared
from suite.store.task import load_task
from tasks.recommendation import NEGATIVES, generated, score
from tasks.recommendation.protocol import Interactions, leave_one_out

BPR_FACTORS, BPR_LEARNING_RATE, BPR_REGULARISATION, BPR_EPOCHS, BPR_BATCH = 64, 0.005, 0.01, 10, 1024
EASE_REGULARISATION = 300.0
Data = Mapping[str, np.ndarray]


def matrix(data: Data) -> csr_matrix:
    """Who took what in training, float32 [users, items]."""
    ones = np.ones(len(data["train_items"]), np.float32)
    shape = (len(data["test_candidates"]), len(data["item_ids"]))
    return csr_matrix((ones, (data["train_users"], data["train_items"])), shape=shape)


def popularity(data: Data) -> np.ndarray:
    """Scores [users, items]: how many users took the item."""
    taken = np.bincount(data["train_items"], minlength=len(data["item_ids"]))
    return np.tile(taken, (len(data["test_candidates"]), 1))


def ease(data: Data) -> np.ndarray:
    """Scores [users, items] of the linear autoencoder without self-loops (Steck 2019, arXiv:1905.03375)."""
    x = matrix(data).toarray().astype(np.float64)
    inverse = np.linalg.inv(x.T @ x + EASE_REGULARISATION * np.eye(x.shape[1]))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)
    scores: np.ndarray = x @ weights
    return scores


def bpr(data: Data) -> np.ndarray:
    """Scores [users, items] of matrix factorisation by Bayesian personalised ranking (Rendle et al. 2009).

    It is our own, since that of `implicit` draws popular negatives more often and reaches less here.
    """
    import torch

    random = np.random.default_rng(1)
    taken = torch.from_numpy(matrix(data).toarray() > 0)
    p, q = (torch.from_numpy(0.1 * random.standard_normal((n, BPR_FACTORS), np.float32)) for n in taken.shape)
    bias = torch.zeros(len(q))
    optimizer = torch.optim.Adam([x.requires_grad_() for x in (p, q, bias)], BPR_LEARNING_RATE)
    pairs = torch.from_numpy(np.stack([data["train_users"], data["train_items"]]).astype(np.int64))
    for _ in range(BPR_EPOCHS):
        order = torch.from_numpy(random.permutation(pairs.shape[1]))
        drawn = torch.from_numpy(random.integers(0, len(q), pairs.shape[1]))
        for first in range(0, len(order), BPR_BATCH):
            chosen = order[first : first + BPR_BATCH]
            (user, item), other = pairs[:, chosen], drawn[chosen]
            unseen = ~taken[user, other]
            user, item, other = user[unseen], item[unseen], other[unseen]
            margin = (p[user] * (q[item] - q[other])).sum(1) + bias[item] - bias[other]
            size = sum(vectors.square().sum(1) for vectors in (p[user], q[item], q[other]))
            loss = (torch.nn.functional.softplus(-margin) + BPR_REGULARISATION * size).mean()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
    scores: np.ndarray = (p @ q.T + bias).detach().numpy()
    return scores


def als(data: Data) -> np.ndarray:
    """Scores [users, items] of matrix factorisation by alternating least squares (Hu et al. 2008), by `implicit`."""
    implicit_als = importlib.import_module("implicit.als")
    model = implicit_als.AlternatingLeastSquares(
        factors=32, regularization=10.0, alpha=3.0, iterations=15, random_state=1
    )
    model.fit(matrix(data), show_progress=False)
    scores: np.ndarray = model.user_factors @ model.item_factors.T
    return scores


def metrics(scores: np.ndarray, data: Data) -> dict[str, float]:
    """The task's metrics, for scores [users, items]."""
    candidates = data["test_candidates"]
    found = np.take_along_axis(scores, candidates, 1)
    rankings = [
        [items[row == value].tolist() for value in np.unique(row)[::-1]]
        for row, items in zip(found, candidates, strict=True)
    ]
    return score(rankings, data)


def one_earlier(data: Data) -> dict[str, np.ndarray]:
    """The benchmark's arrays with the last training interaction in place of the one to be found, to choose settings."""
    given = (data["train_users"].astype(np.int64), data["train_items"].astype(np.int64))
    arrays = leave_one_out(Interactions("the training data", *given, np.arange(len(given[0]))), NEGATIVES)
    ids = arrays["item_ids"]
    renumbered = {
        name: ids[arrays[name]].astype(np.int32) for name in ("train_items", "test_candidates", "answer_items")
    }
    return {**arrays, **renumbered, "item_ids": data["item_ids"]}


def main(argv: list[str]) -> int:
    """Print a line for each model."""
    parser = OneLineParser(prog="python -m tasks.recommendation.baselines")
    parser.add_argument("scale", nargs="?", default="small", choices=["mini", "small"])
    parser.add_argument("--one-earlier", action="store_true", help="find the second to last interactions instead")
    arguments = parser.parse_args(argv)
    data: Data = prepared(config.benchmark("recommendation", arguments.scale), load_task("recommendation"))
    if arguments.one_earlier:
        data = one_earlier(data)
    models: dict[str, Callable[[Data], np.ndarray]] = {"popularity": popularity, "BPR": bpr, "ALS": als, "EASE": ease}
    if arguments.scale == "mini":
        models["true model"] = lambda _: generated.utilities()
    for name, model in models.items():
        began = time.perf_counter()
        try:
            scores = model(data)
        except ModuleNotFoundError as error:
            raise UserError(f"{name} needs implicit ({error}): pip install implicit==0.7.3") from error
        seconds = time.perf_counter() - began
        found = metrics(scores, data)
        print(f"{name:12} HR@10 {found['hr_10']:.4f}  NDCG@10 {found['ndcg_10']:.4f}  {seconds:6.1f} s")
    return 0


if __name__ == "__main__":
    command(main)
