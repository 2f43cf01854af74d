"""What both frameworks share: initial parameters, batches, dropout masks, schedule and ranking, in numpy.

Everything is a function of the seed and of the step, so a checkpoint needs no random state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reference_impls.recipe import Recipe

CUTOFF = 10  # of the metric: how many candidates a ranking must list
NEVER = 32767  # the position at which an item counts as taken when it is not in the history
FP16_LOSS_SCALE = 1024.0
_INIT_STREAM, _DROPOUT_STREAM = 1_000_001, 1_000_002  # random streams apart from those of the epochs


@dataclass(frozen=True)
class Hyperparameters(Recipe):
    """The fixed recipe; names follow MLPerf's log keys where there is one."""

    global_batch_size: int  # windows of histories, which are the samples
    lengths: tuple[int, ...]  # a batch is as long as the first of these that holds its windows; the last cuts them
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
        """That of the step, from 0: linear warm-up, then linear to `opt_end_learning_rate` of the base."""
        warm = min((step + 1) / self.opt_learning_rate_warmup_steps, 1.0)
        left = 1 - step / (self.epochs * steps_per_epoch)
        return self.opt_base_learning_rate * warm * max(left, self.opt_end_learning_rate)


def initial_parameters(hyper: Hyperparameters, items: int, seed: int) -> dict[str, np.ndarray]:
    """Parameters by name; weights [in, out] are uniform with variance 1 / (3 in), embeddings have deviation 0.02.

    The item after the last one stands for the beginning of a history.
    """
    random = np.random.default_rng([seed, _INIT_STREAM])
    d = hyper.hidden_size
    parameters = {
        "item_embedding": 0.02 * random.standard_normal((items + 1, d)),
        "position_embedding": 0.02 * random.standard_normal((hyper.lengths[-1], d)),
        "item_bias": np.zeros(items),
        "norm_scale": np.ones(d),
        "norm_bias": np.zeros(d),
    }
    for layer in range(hyper.layers):
        for name, inputs, outputs in (("qkv", d, 3 * d), ("out", d, d), ("up", d, 4 * d), ("down", 4 * d, d)):
            weight = random.uniform(-1, 1, (inputs, outputs)) / np.sqrt(inputs)
            parameters[f"layer{layer}_{name}_weight"] = weight
            parameters[f"layer{layer}_{name}_bias"] = np.zeros(outputs)
        for name in ("attention", "mlp"):
            parameters[f"layer{layer}_{name}_norm_scale"] = np.ones(d)
            parameters[f"layer{layer}_{name}_norm_bias"] = np.zeros(d)
    return {name: value.astype(np.float32) for name, value in parameters.items()}


@dataclass(frozen=True)
class Batch:
    """One training step's arrays; B windows of length L, of which I is the number of items.

    `inputs` int32 [B, L]: what was taken before each target; `targets` int32 [B, L], -1 where there is none;
    `taken` int16 [B, I]: the position from which on an item is in the history and cannot come again;
    `keep` uint8 [1 + 2 layers, B, L, hidden]: the dropout masks.
    """

    inputs: np.ndarray
    targets: np.ndarray
    taken: np.ndarray
    keep: np.ndarray


@dataclass(frozen=True)
class Question:
    """Which of the `candidates` int32 [B, C] users [n <= B] take, after position `last` int64 [B] of `inputs` int32
    [B, L]."""

    users: np.ndarray
    inputs: np.ndarray
    last: np.ndarray
    candidates: np.ndarray


class Histories:
    """The users' training items, in order, cut into windows of at most `lengths[-1]` targets, counted from the end."""

    def __init__(self, data: Mapping[str, np.ndarray], hyper: Hyperparameters, seed: int) -> None:
        self.hyper, self.seed, self.items = hyper, seed, len(data["item_ids"])
        users = np.array(data["train_users"])
        ends = np.searchsorted(users, np.arange(1, users[-1] + 1))
        self.histories = np.split(np.array(data["train_items"]), ends)
        longest = hyper.lengths[-1]
        self.windows = np.array(
            [
                (user, max(end - longest, 0), end)
                for user, history in enumerate(self.histories)
                for end in range(len(history), 0, -longest)
            ]
        )
        self.steps_per_epoch = len(self.windows) // hyper.global_batch_size

    def batches(self, step: int) -> Iterator[Batch]:
        """Training batches without end, from `step` on: windows of like length together, incomplete ones left out."""
        size = self.hyper.global_batch_size
        sizes = np.searchsorted(self.hyper.lengths, self.windows[:, 2] - self.windows[:, 1])
        while True:
            epoch, within = divmod(step, self.steps_per_epoch)
            random = np.random.default_rng([self.seed, epoch])
            order = random.permutation(len(self.windows))
            order = order[np.argsort(sizes[order], kind="stable")]
            groups = order[: self.steps_per_epoch * size].reshape(-1, size)
            for group in groups[random.permutation(len(groups))][within:]:
                yield self._batch(self.windows[group], self.hyper.lengths[sizes[group].max()], step)
                step += 1

    def _batch(self, windows: np.ndarray, length: int, step: int) -> Batch:
        inputs = np.full((len(windows), length), self.items, np.int32)
        targets = np.full((len(windows), length), -1, np.int32)
        taken = np.full((len(windows), self.items), NEVER, np.int16)
        for row, (user, begin, end) in enumerate(windows):
            history = self.histories[user][:end]
            targets[row, : end - begin] = history[begin:]
            inputs[row, 0 if begin else 1 : end - begin] = history[max(begin - 1, 0) : -1]
            taken[row, history] = np.arange(1 - begin, end - begin + 1)
        return Batch(inputs, targets, taken, dropout_masks(self.hyper, self.seed, step, length))

    def questions(self, candidates: np.ndarray) -> Iterator[Question]:
        """Each user, and its row of `candidates`, once, in batches of like length.

        The last batch of a length is filled up with histories that are only a beginning.
        """
        size, longest = self.hyper.global_batch_size, self.hyper.lengths[-1]
        counts = np.minimum([len(history) + 1 for history in self.histories], longest)
        sizes = np.searchsorted(self.hyper.lengths, counts)
        for number, length in enumerate(self.hyper.lengths):
            chosen = np.flatnonzero(sizes == number)
            for first in range(0, len(chosen), size):
                users = chosen[first : first + size]
                inputs = np.full((size, length), self.items, np.int32)
                last = np.zeros(size, np.int64)
                asked = np.zeros((size, candidates.shape[1]), np.int32)
                asked[: len(users)] = candidates[users]
                for row, user in enumerate(users):
                    known = self.histories[user][-longest:]
                    inputs[row, counts[user] - len(known) : counts[user]] = known
                    last[row] = counts[user] - 1
                yield Question(users, inputs, last, asked)


def made_up_batches(hyper: Hyperparameters, items: int) -> Iterator[Batch]:
    """A batch of each length, to warm up on."""
    for length in hyper.lengths:
        nothing = np.zeros((hyper.global_batch_size, length), np.int32)
        taken = np.full((hyper.global_batch_size, items), NEVER, np.int16)
        yield Batch(nothing, nothing, taken, dropout_masks(hyper, 0, 0, length))


def dropout_masks(hyper: Hyperparameters, seed: int, step: int, length: int) -> np.ndarray:
    """uint8 [1 + 2 layers, B, L, hidden]: 0 for what is dropped, else 1. Bytes are quicker to draw than fractions."""
    shape = (1 + 2 * hyper.layers, hyper.global_batch_size, length, hyper.hidden_size)
    drawn = np.random.default_rng([seed, _DROPOUT_STREAM, step]).bytes(int(np.prod(shape)))
    return (np.frombuffer(drawn, np.uint8) >= round(256 * hyper.dropout)).view(np.uint8).reshape(shape)


def rank(answered: Iterable[tuple[Question, np.ndarray]]) -> list[list[list[int]]]:
    """Each user's best candidates, by their scores float32 [B, C] in each question."""
    rankings = {}
    for question, scores in answered:
        for row, user in enumerate(question.users.tolist()):
            rankings[user] = ranking(scores[row], question.candidates[row].tolist())
    return [rankings[user] for user in sorted(rankings)]


def ranking(scores: np.ndarray, candidates: Sequence[int]) -> list[list[int]]:
    """Candidates in groups of equal score, best first, until `CUTOFF` are listed; what is not a number is worst."""
    scores = np.nan_to_num(scores, nan=-np.inf)
    groups: list[list[int]] = []
    listed, previous = 0, None
    for place in np.argsort(-scores, kind="stable"):
        if scores[place] != previous:
            if listed >= CUTOFF:
                break
            groups.append([])
        groups[-1].append(candidates[place])
        listed, previous = listed + 1, scores[place]
    return groups
