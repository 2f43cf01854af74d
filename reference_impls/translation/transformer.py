"""What both frameworks share of the Transformer as published: batches counted in subwords, schedule, parameters.

The big Transformer (Vaswani et al. 2017, arXiv:1706.03762) as MLPerf Training 0.7 had it: normalised before each
sublayer, with one embedding for both languages and the output, dropout of attention weights and after ReLU too. The
hyperparameters of `full` are those of NVIDIA's logs of that round for eight A100s (`dgxa100_ngc20.06_pytorch`), sizes
and dropout those of MLPerf's reference (github.com/mlcommons/training, retired_benchmarks/transformer).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count

import numpy as np

from reference_impls.shares import part, steps
from reference_impls.translation.shared import BUCKETS, INIT_STREAM, Network, shapes_of
from suite.errors import UserError, unknown
from suite.harness.implementation import Device
from tasks.translation.sizes import PAIRS
from tasks.translation.subwords import BEGIN, END, PAD

MODELS = ("transformer",)
SHORTEST, APART = 16, 8  # the lengths to which sentences are padded: 16, 24, 32 and so on
SEARCHED = {"cpu": BUCKETS[:1], "gpu": (*BUCKETS, 2 * BUCKETS[-1])}  # lengths of sources to warm up on
FIRST_GAIN = 0.25  # of the last norm; see `initial_parameters`


@dataclass(frozen=True)
class Hyperparameters(Network):
    """The fixed recipe; names follow MLPerf's log keys where there is one. A sample is a place of a batch's targets.

    Padding counts, as in MLPerf's `global_batch_size`.
    """

    published = True

    model: str  # of MODELS
    global_batch_size: int  # places for subwords of a step, as many of sources as of targets
    part_size: int  # of these, what goes through the model together: pairs of like length
    max_sequence_length: int  # pairs with a longer sentence are left out; END counts
    opt_base_learning_rate: float  # after the warm-up
    opt_learning_rate_warmup_steps: int
    opt_adam_beta_1: float
    opt_adam_beta_2: float
    opt_adam_epsilon: float

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise unknown("hyperparameters.model", self.model, MODELS)
        self.require_multiple_of("part_size", "the places that go through together")
        if self.max_sequence_length % APART or not SHORTEST <= self.max_sequence_length <= self.part_size:
            raise UserError(
                f"hyperparameters.max_sequence_length={self.max_sequence_length} is no multiple of {APART} "
                f"from {SHORTEST} to part_size={self.part_size}"
            )

    @property
    def parts(self) -> int:
        """How many parts a step has."""
        return self.global_batch_size // self.part_size

    @cached_property
    def lengths(self) -> np.ndarray:
        """The lengths to which sentences are padded."""
        return np.arange(SHORTEST, self.max_sequence_length + 1, APART)

    def rate(self, step: int) -> float:
        """The learning rate of a step: linear from zero, then with the inverse square root of the step."""
        done = (step + 1) / self.opt_learning_rate_warmup_steps
        return self.opt_base_learning_rate * min(done, 1 / math.sqrt(done))


def initial_parameters(hyper: Hyperparameters, subwords: int, seed: int) -> dict[str, np.ndarray]:
    """Parameters float32 by name, matrices [out, in].

    Matrices are uniform (Glorot and Bengio 2010), the embedding is N(0, 1 / d_model), biases are zero and gains one, as
    in MLPerf's reference, but for the gains of the last norm: they are FIRST_GAIN. The embedding is the output too;
    with gains of one the subword before would be likely to come again, so the loss would not begin at the logarithm
    of the vocabulary.
    """
    random = np.random.default_rng([seed, INIT_STREAM])
    width = hyper.d_model
    drawn = random.standard_normal((subwords, width), np.float32)
    parameters: dict[str, np.ndarray] = {"embedding.weight": drawn * np.float32(width**-0.5)}
    for name, shape in shapes_of(hyper).items():
        if len(shape) == 1:
            gain = FIRST_GAIN if name == "decoder_norm" else 1.0
            parameters[f"{name}.weight"] = np.full(shape, gain, np.float32)
        else:
            bound = np.float32((6 / sum(shape)) ** 0.5)
            parameters[f"{name}.weight"] = random.random(shape, np.float32) * (2 * bound) - bound
        if len(shape) == 1 or ".linear" in name:
            parameters[f"{name}.bias"] = np.zeros(shape[0], np.float32)
    return parameters


@dataclass(frozen=True)
class Part:
    """Pairs that go through the model together: `source` int32 [n, L], and `target` int32 [n, 1 + L] from BEGIN on.

    `subwords` is how many the targets of the whole step have, of all workers; `number` counts a worker's parts of a
    step.
    """

    source: np.ndarray
    target: np.ndarray
    subwords: int
    number: int


class Pairs:
    """The training pairs of a worker in parts of similar length, in the order of a seed.

    In each epoch all pairs are shuffled, those that are padded to one length make parts, the parts are shuffled, and
    the steps take them in turn, each worker its share of every step. Each epoch leaves out some pairs: those of each
    length that fill no part, and parts that fill no step. Pairs with too long a sentence are always left out.
    """

    def __init__(self, data: Mapping[str, np.ndarray], hyper: Hyperparameters, seed: int, device: Device) -> None:
        self.shards = [data[name] for name in sorted(data) if name.startswith(PAIRS)]
        self.hyper, self.seed, self.device = hyper, seed, device
        ends = [_ends(name, data[name]) for name in sorted(data) if name.startswith(PAIRS)]
        self.shard_ends = np.cumsum([len(each) for each in ends])
        self.ends = np.concatenate(ends)  # of source and target, in their shard
        begins = np.concatenate([np.roll(each[:, 1], 1) for each in ends])
        begins[[0, *self.shard_ends[:-1]]] = 0
        self.begins = begins
        self.lengths = np.stack([self.ends[:, 0] - begins, self.ends[:, 1] - self.ends[:, 0]], 1)
        longest = self.lengths.max(1)
        fitting = np.searchsorted(hyper.lengths, longest)  # which of the lengths
        self.of_length = [np.flatnonzero(fitting == i) for i in range(len(hyper.lengths))]
        self.parts_per_epoch = sum(
            len(pairs) // self.rows(length) for pairs, length in zip(self.of_length, hyper.lengths, strict=True)
        )
        self.steps_per_epoch = steps(
            self.parts_per_epoch * hyper.part_size, hyper.global_batch_size, "places in whole parts"
        )

    def rows(self, length: int) -> int:
        """How many pairs a part of this length has."""
        return self.hyper.part_size // int(length)

    def epoch(self, number: int) -> list[tuple[int, np.ndarray]]:
        """The length of each part of an epoch, and the numbers of its pairs."""
        random = np.random.default_rng([self.seed, number])
        parts: list[tuple[int, np.ndarray]] = []
        for length, pairs in zip(self.hyper.lengths.tolist(), self.of_length, strict=True):
            rows = self.rows(length)
            whole = random.permutation(pairs)[: len(pairs) // rows * rows]
            parts += [(length, chosen) for chosen in whole.reshape(-1, rows)]
        return [parts[i] for i in random.permutation(len(parts))]

    def iterate(self, step: int) -> Iterator[list[Part]]:
        """The worker's parts of each step, without end, from a step on."""
        own = part(self.hyper.parts, self.device)
        at, parts = -1, []
        for each in count(step):
            epoch, within = divmod(each, self.steps_per_epoch)
            if epoch != at:
                at, parts = epoch, self.epoch(epoch)
            whole = parts[within * self.hyper.parts :][: self.hyper.parts]
            subwords = int(self.lengths[np.concatenate([chosen for _, chosen in whole]), 1].sum())
            yield [
                Part(*self.filled_up(length, chosen), subwords, number)
                for number, (length, chosen) in enumerate(whole[own])
            ]

    def filled_up(self, length: int, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sources int32 [n, L] and targets int32 [n, 1 + L] of pairs; see `Part`."""
        source = np.full((len(chosen), length), PAD, np.int32)
        target = np.full((len(chosen), length + 1), PAD, np.int32)
        target[:, 0] = BEGIN
        shards = np.searchsorted(self.shard_ends, chosen, "right")
        for row, (shard, pair) in enumerate(zip(shards.tolist(), chosen.tolist(), strict=True)):
            begin, (middle, end) = self.begins[pair], self.ends[pair]
            source[row, : middle - begin] = self.shards[shard][begin:middle]
            target[row, 1 : 1 + end - middle] = self.shards[shard][middle:end]
        return source, target


def _ends(name: str, shard: np.ndarray) -> np.ndarray:
    """Where the sentences of each pair of a shard end, int64 [N, 2]. Raises UserError where one has no translation."""
    ends = np.flatnonzero(shard == END) + 1
    if len(ends) % 2:
        raise UserError(f"{name} holds {len(ends)} sentences, an odd number: it is no shard of pairs")
    return ends.reshape(-1, 2)


def made_up(hyper: Hyperparameters, parts: int, kind: str) -> Iterator[list[Part]]:
    """Steps of `parts` parts to warm up on: on a GPU of each length, longest first; on a CPU, uncompiled, of one."""
    for length in reversed(hyper.lengths.tolist()) if kind == "gpu" else (SHORTEST,):
        rows = hyper.part_size // length
        source, target = np.full((rows, length), 5, np.int32), np.full((rows, length + 1), 5, np.int32)
        yield [Part(source, target, rows * length * hyper.parts, number) for number in range(parts)]
