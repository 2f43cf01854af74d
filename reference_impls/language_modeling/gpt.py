"""What both frameworks share of the GPT: initial parameters, the order of the sequences, schedule, in numpy.

The model has 124 million parameters in matrix products. It is record 8 of modded-nanogpt, which reached 3.28 on FineWeb
in 10.8 minutes on eight H100s (github.com/KellerJordan/modded-nanogpt, records/track_1_short/2024-11-03_UntieEmbed);
comments give that code's names. It is GPT-2 (Radford et al. 2019) with rotary positions (Su et al. 2021), normalised
queries and keys, squared ReLU, no biases or gains, and an output that is not tied to the embedding. Muon trains the
matrices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from reference_impls.recipe import Recipe
from reference_impls.shares import part, steps
from suite.errors import UserError, unknown
from suite.harness.implementation import Device
from tasks.language_modeling import CHUNK

MODELS = ("gpt",)
DECIMALS = 4  # of a predicted log-probability
ROTARY_BASE = 10_000.0
EPSILON = 1e-6  # of the normalisation
# Tokens of a forward and backward pass, on a GPU per GB of its memory; gradients of more are accumulated
TOKENS_ON_CPU, TOKENS_A_GB, FEWEST_TOKENS, MOST_TOKENS = 4_096, 512, 8_192, 32_768
_INIT_STREAM = 1_000_001  # random streams apart from those of the epochs


@dataclass(frozen=True)
class Hyperparameters(Recipe):
    """The fixed recipe; names follow MLPerf's log keys where there is one. A sample is one token."""

    model: str  # of MODELS
    global_batch_size: int  # tokens in one step
    sequence_length: int  # tokens that attend to each other
    vocabulary_size: int  # at least the data's; a multiple of 128 multiplies faster
    width: int
    layers: int
    heads: int
    schedule_samples: int  # the learning rate falls to zero by then
    decay_fraction: float  # of the schedule, at its end
    muon_learning_rate: float
    muon_momentum: float
    muon_steps: int
    embedding_learning_rate: float
    head_learning_rate: float
    opt_adam_beta_1: float
    opt_adam_beta_2: float
    opt_adam_epsilon: float

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise unknown("hyperparameters.model", self.model, MODELS)
        self.require_multiple_of("sequence_length", "the tokens that attend to each other")

    def require_rows(self, tokens: int) -> None:
        """Raise UserError if the vocabulary of the data has more tokens than the embedding has rows."""
        if tokens > self.vocabulary_size:
            raise UserError(
                f"hyperparameters.vocabulary_size={self.vocabulary_size} is less than the {tokens} tokens of the "
                "data's vocabulary: take at least as many"
            )

    @property
    def sequences(self) -> int:
        """How many sequences a step has."""
        return self.global_batch_size // self.sequence_length

    def learning_rate(self, step: int) -> float:
        """The factor on the learning rates in a step: 1, then falling linearly to zero."""
        left = 1 - step * self.global_batch_size / self.schedule_samples
        return min(1.0, max(left, 0.0) / self.decay_fraction) if self.decay_fraction else 1.0


def initial_parameters(hyper: Hyperparameters, seed: int) -> dict[str, np.ndarray]:
    """Parameters float32 by PyTorch's names, matrices [out, in]; what a layer adds and the output start at zero.

    The embedding is N(0, 1) as torch.nn.Embedding's, other matrices uniform as torch.nn.Linear's.
    """
    random = np.random.default_rng([seed, _INIT_STREAM])
    width, rows = hyper.width, hyper.vocabulary_size
    parameters = {"embedding.weight": random.standard_normal((rows, width), np.float32)}
    bound = width**-0.5

    def uniform(outputs: int) -> np.ndarray:
        drawn: np.ndarray = random.random((outputs, width), np.float32) * (2 * bound) - bound
        return drawn

    for i in range(hyper.layers):
        for name in ("query", "key", "value"):  # c_q, c_k, c_v
            parameters[f"blocks.{i}.{name}.weight"] = uniform(width)
        parameters[f"blocks.{i}.mix.weight"] = np.zeros((width, width), np.float32)  # attn.c_proj
        parameters[f"blocks.{i}.widen.weight"] = uniform(4 * width)  # mlp.c_fc
        parameters[f"blocks.{i}.narrow.weight"] = np.zeros((width, 4 * width), np.float32)  # mlp.c_proj
    parameters["head.weight"] = np.zeros((rows, width), np.float32)  # lm_head
    return parameters


def is_matrix(name: str) -> bool:
    """Whether Muon trains the parameter: the matrices of the blocks; Adam trains embedding and output."""
    return name.startswith("blocks.")


def rotations(hyper: Hyperparameters) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines float32 [sequence_length, width / heads / 2] of the rotary positions."""
    half = hyper.width // hyper.heads // 2
    angles = np.outer(np.arange(hyper.sequence_length), ROTARY_BASE ** (-np.arange(half) / half))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def at_once(sequences: int, hyper: Hyperparameters, device: Device) -> int:
    """How many of a worker's sequences go through the model together, in as few and as equal passes as allowed.

    In PyTorch `full` takes some 1.1 MB of memory a token in bf16 (docs/full-scale.md).
    """
    tokens = TOKENS_ON_CPU
    if device.kind == "gpu":
        tokens = min(max(int(TOKENS_A_GB * (device.memory_gb or 0)), FEWEST_TOKENS), MOST_TOKENS)
    passes = -(-sequences // max(tokens // hyper.sequence_length, 1))
    return -(-sequences // passes)


class Sequences:
    """The training sequences of a worker, each of `sequence_length` + 1 tokens, in the order of a seed.

    A shard is cut into sequences from its first token on; what is left at its end is not read. In each epoch all
    sequences of all shards are shuffled, and the steps take them in turn, each worker its share.
    """

    def __init__(self, data: Mapping[str, np.ndarray], hyper: Hyperparameters, seed: int, device: Device) -> None:
        self.shards = training_shards(data)
        self.hyper, self.seed, self.device = hyper, seed, device
        counts = [(len(shard) - 1) // hyper.sequence_length for shard in self.shards]
        self.ends = np.cumsum(counts)
        self.steps_per_epoch = steps(
            int(self.ends[-1]) * hyper.sequence_length, hyper.global_batch_size, "tokens in whole sequences"
        )
        self._epoch, self._order = -1, np.empty(0, np.uint32)

    def batch(self, step: int) -> np.ndarray:
        """The worker's sequences of a step, int32 [share, sequence_length + 1]; always the same for a step."""
        epoch, within = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._order = np.random.default_rng([self.seed, epoch]).permutation(
                np.arange(self.ends[-1], dtype=np.uint32)
            )
            self._epoch = epoch
        first, length = within * self.hyper.sequences, self.hyper.sequence_length
        chosen = self._order[first : first + self.hyper.sequences][part(self.hyper.sequences, self.device)]
        batch = np.empty((len(chosen), length + 1), np.int32)
        for row, sequence in zip(batch, chosen, strict=True):
            shard = int(np.searchsorted(self.ends, sequence, "right"))
            begin = (int(sequence) - (int(self.ends[shard - 1]) if shard else 0)) * length
            row[:] = self.shards[shard][begin : begin + length + 1]
        return batch

    def iterate(self, step: int) -> Iterator[np.ndarray]:
        """Batches without end, from `step` on."""
        return map(self.batch, count(step))


def training_shards(data: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The shards of the training text, in order; a text in one array is one shard."""
    return [data[name] for name in sorted(data) if name.startswith("train_tokens")]


@dataclass(frozen=True)
class Evaluation:
    """A worker's sequences of the test text: `words` and the `targets` after them, int32 [N, sequence_length].

    The last may be padded: the worker's tokens are those of the text from `first` on to before `end`. `audited` are the
    places of the audited tokens in the text, `audited_words` [A, sequence_length] the sequences that they are in.
    """

    words: np.ndarray
    targets: np.ndarray
    first: int
    end: int
    audited: np.ndarray
    audited_words: np.ndarray


def evaluation(
    tokens: np.ndarray, data: Mapping[str, np.ndarray], hyper: Hyperparameters, device: Device
) -> Evaluation:
    """A worker's share of the test text `tokens`, which begins where a list of predictions does."""
    length = hyper.sequence_length
    text = np.concatenate([data["begin_token"], tokens]).astype(np.int32)
    padded = np.pad(text, (0, -len(tokens) % length))
    words, targets = padded[:-1].reshape(-1, length), padded[1:].reshape(-1, length)
    unit = math.lcm(length, CHUNK)
    taken = part(-(-len(tokens) // unit), device)
    rows = slice(taken.start * unit // length, taken.stop * unit // length)
    at = np.asarray(data["audit_positions"], np.int64)
    return Evaluation(
        words[rows],
        targets[rows],
        min(taken.start * unit, len(tokens)),
        min(taken.stop * unit, len(tokens)),
        at,
        words[at // length],
    )


def predictions(
    made: Evaluation, log_probabilities: np.ndarray, distributions: np.ndarray, tokens: np.ndarray, device: Device
) -> list[list[float]]:
    """A worker's predictions for `tasks.language_modeling`: of its tokens, and from the last worker the distributions.

    `log_probabilities` float32 are those of its sequences, `distributions` [A, V] those at all audited places. An
    audited token's log-probability is taken from its distribution, since products of other shapes round differently.
    """
    text = log_probabilities.reshape(-1)[: made.end - made.first].copy()
    for place, distribution in zip(made.audited, distributions, strict=True):
        if made.first <= place < made.end:
            text[place - made.first] = distribution[tokens[place]]
    rows: list[np.ndarray] = [text[i : i + CHUNK] for i in range(0, len(text), CHUNK)]
    if device.rank == device.world_size - 1:
        rows += [*distributions]
    return [np.round(np.minimum(row, 0.0).astype(np.float64), DECIMALS).tolist() for row in rows]


def made_up(hyper: Hyperparameters, sequences: int) -> np.ndarray:
    """Sequences int32 [sequences, sequence_length + 1] to warm up on."""
    return np.random.default_rng(0).integers(
        0, hyper.vocabulary_size, (sequences, hyper.sequence_length + 1), dtype=np.int32
    )


def made_up_audit(hyper: Hyperparameters, data: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """A made-up sequence for each audited token, int32 [A, sequence_length], and a place int64 [A] in each."""
    count = len(data["audit_positions"])
    return made_up(hyper, count)[:, :-1], np.zeros(count, np.int64)


def blocks_of(rows: np.ndarray, size: int) -> Sequence[np.ndarray]:
    """`rows` in blocks of `size`, the last padded with its last row."""
    filled = np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % size, 0)]) if len(rows) else rows
    return [filled[i : i + size] for i in range(0, len(filled), size)]
