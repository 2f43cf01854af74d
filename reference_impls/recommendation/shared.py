"""What both frameworks share: initial parameters, order of the windows, schedule and ranking, in numpy.

Everything is a function of the seed and of the step, so a checkpoint needs no random state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from reference_impls.recipe import Recipe
from reference_impls.shares import steps

CUTOFF = 10  # of the metric: how many candidates a ranking must list
NEVER = 1 << 20  # the position at which an item counts as taken when it is not in the history
_INIT_STREAM = 1_000_001  # a random stream apart from those of the epochs
EVALUATION_BATCH = 256  # users at a time


@dataclass(frozen=True)
class Hyperparameters(Recipe):
    """The fixed recipe; names follow MLPerf's log keys where there is one."""

    global_batch_size: int  # windows of histories, which are the samples
    lengths: tuple[int, ...]  # a batch takes the first of these that holds its windows; histories are cut at the last
    hidden_size: int
    heads: int
    layers: int
    dropout: float  # a multiple of 1/256
    opt_base_learning_rate: float
    opt_learning_rate_warmup_steps: int
    opt_end_learning_rate: float  # as a fraction of the base
    opt_adamw_beta_1: float
    opt_adamw_beta_2: float
    opt_adamw_epsilon: float
    opt_adamw_weight_decay: float
    epochs: int  # over which the learning rate falls

    def learning_rate(self, step: int, steps_per_epoch: int) -> float:
        """The learning rate of a step: linear warm-up, then linear to `opt_end_learning_rate` of the base."""
        warm = min((step + 1) / max(self.opt_learning_rate_warmup_steps, 1), 1.0)
        left = 1 - step / (self.epochs * steps_per_epoch)
        return self.opt_base_learning_rate * warm * max(left, self.opt_end_learning_rate)


def initial_parameters(hyper: Hyperparameters, items: int, seed: int) -> dict[str, np.ndarray]:
    """Parameters by PyTorch's names; matrices are uniform with variance 1 / (3 in), embeddings have deviation 0.02.

    The item after the last one stands for the beginning of a history.
    """
    random = np.random.default_rng([seed, _INIT_STREAM])
    d = hyper.hidden_size
    parameters = {
        "item_embedding.weight": 0.02 * random.standard_normal((items + 1, d)),
        "position_embedding.weight": 0.02 * random.standard_normal((hyper.lengths[-1], d)),
        "item_bias": np.zeros(items),
    }
    norms = ["norm"]
    for layer in (f"blocks.{i}" for i in range(hyper.layers)):
        for name, inputs, outputs in (
            ("query", d, d),
            ("key_value", d, 2 * d),
            ("out", d, d),
            ("up", d, 4 * d),
            ("down", 4 * d, d),
        ):
            parameters[f"{layer}.{name}.weight"] = random.uniform(-1, 1, (outputs, inputs)) / np.sqrt(inputs)
            parameters[f"{layer}.{name}.bias"] = np.zeros(outputs)
        norms += [f"{layer}.attention_norm", f"{layer}.mlp_norm"]
    for norm in norms:
        parameters |= {f"{norm}.weight": np.ones(d), f"{norm}.bias": np.zeros(d)}
    return {name: value.astype(np.float32) for name, value in parameters.items()}


@dataclass(frozen=True)
class Question:
    """A question: which of the `candidates` int64 [B, C] comes next in each of the `windows` int64 [B, 3] of histories?

    Each window, with what comes next, fits into `length` positions; see `Histories.windows`.
    """

    windows: np.ndarray
    length: int
    candidates: np.ndarray


class Histories:
    """The windows of the users' histories; `train_items`, on the device, has these one after the other, each in order.

    `windows` int64 [W, 3]: each has at most `lengths[-1]` targets, counted from the end of a history. A row says where
    in `train_items` the user's history begins, and where the window's targets begin and end.
    """

    def __init__(self, data: Mapping[str, np.ndarray], hyper: Hyperparameters, seed: int) -> None:
        self.hyper, self.seed = hyper, seed
        users = np.array(data["train_users"])
        self.bounds = np.searchsorted(users, np.arange(users[-1] + 2))  # of each user's history
        longest = hyper.lengths[-1]
        self.windows = np.array(
            [
                (first, max(end - longest, first), end)
                for first, last in pairwise(self.bounds.tolist())
                for end in range(last, first, -longest)
            ]
        )
        self.steps_per_epoch = steps(len(self.windows), hyper.global_batch_size, "windows")

    def batches(self, step: int) -> Iterator[tuple[np.ndarray, int]]:
        """Training windows int64 [B, 3] and the length that holds them, without end, from `step` on.

        Windows of similar length come together; incomplete batches are left out.
        """
        size = self.hyper.global_batch_size
        sizes = np.searchsorted(self.hyper.lengths, self.windows[:, 2] - self.windows[:, 1])
        while True:
            epoch, within = divmod(step, self.steps_per_epoch)
            random = np.random.default_rng([self.seed, epoch])
            order = random.permutation(len(self.windows))
            order = order[np.argsort(sizes[order], kind="stable")]
            groups = order[: self.steps_per_epoch * size].reshape(-1, size)
            for group in groups[random.permutation(len(groups))][within:]:
                yield self.windows[group], self.hyper.lengths[sizes[group].max()]
                step += 1

    def questions(self, candidates: np.ndarray, of: slice = slice(None)) -> tuple[np.ndarray, list[Question]]:
        """Each user's row, int64, in all answers, and questions of what comes next in the histories `of` these users.

        `candidates` [U, C] are of all users. Questions are of similar length, padded with empty histories.
        """
        candidates, first, end = candidates[of], self.bounds[:-1][of], self.bounds[1:][of]
        begin = np.maximum(first, end + 1 - self.hyper.lengths[-1])
        sizes = np.searchsorted(self.hyper.lengths, end + 1 - begin)
        rows = np.zeros(len(sizes), np.int64)
        questions: list[Question] = []
        for number, length in enumerate(self.hyper.lengths):
            of_length = np.flatnonzero(sizes == number)
            for users in np.split(of_length, range(EVALUATION_BATCH, len(of_length), EVALUATION_BATCH)):
                rows[users] = EVALUATION_BATCH * len(questions) + np.arange(len(users))
                fill = ((0, EVALUATION_BATCH - len(users)), (0, 0))
                windows = np.stack([first[users], begin[users], end[users]], 1)
                asked = candidates[users].astype(np.int64)
                questions.append(Question(np.pad(windows, fill), length, np.pad(asked, fill)))
        return rows, questions


def made_up_windows(count: int) -> np.ndarray:
    """Windows int64 [count, 3], to warm up on."""
    return np.tile(np.arange(3), (count, 1))


def rankings(scores: np.ndarray, candidates: np.ndarray) -> list[list[list[int]]]:
    """Each user's candidates, of int [U, C], in groups of equal score, best first, until `CUTOFF` are listed.

    `scores` float32 [U, C] do not rise along a row, and none is NaN.
    """
    best: list[list[list[int]]] = candidates[:, :CUTOFF, None].tolist()  # where no two are equal
    equal = scores[:, 1:] == scores[:, :-1]
    for user in np.flatnonzero(equal[:, :CUTOFF].any(1)):
        ends = np.append(np.flatnonzero(~equal[user]) + 1, len(candidates[user]))
        groups = np.split(candidates[user], ends[: np.searchsorted(ends, CUTOFF) + 1])[:-1]
        best[user] = [group.tolist() for group in groups]
    return best
