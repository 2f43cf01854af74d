"""What both frameworks share: initial parameters, batches and the schedule, in numpy.

Everything is a function of the seed and of the step, so a checkpoint needs no random state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from reference_impls.recipe import Recipe
from reference_impls.shares import steps
from suite.errors import UserError
from tasks.translation.subwords import END, PAD

INIT_STREAM = 1_000_001  # a random stream apart from those of the epochs
POSITIONS = 512  # the longest sequence that is embedded
MASKED = -1e4  # added to the logits of positions that attention must not see; within fp16's range
CHECKED = {"cpu": 4, "gpu": 8}  # after so many subwords the search asks the device which sentences are done
TOGETHER = {"cpu": 125, "gpu": 250}  # sentences translated together, alike in length; at most
BUCKETS = (16, 24, 32, 64)  # lengths of batches on a GPU, compiled beforehand; above, multiples of the last


@dataclass(frozen=True)
class Network(Recipe):
    """The hyperparameters of the Transformer and its search, whichever way it is trained."""

    published: ClassVar[bool]  # with biases in norms and feed-forward layers, and dropout inside of the sublayers too

    d_model: int  # width of embeddings and layers
    heads: int
    d_ff: int  # width of the feed-forward sublayers
    encoder_layers: int
    decoder_layers: int
    dropout: float  # of embeddings and of each sublayer's output
    label_smoothing: float
    beam_size: int
    length_penalty: float  # hypotheses compare by log probability / length ** length_penalty


@dataclass(frozen=True)
class Hyperparameters(Network):
    """The fixed recipe of `mini` and `small`; names follow MLPerf's log keys where there is one."""

    published = False

    global_batch_size: int  # sentence pairs
    epochs: float  # of the schedule, warm-up included; the learning rates reach zero at its end
    warmup_steps: int
    muon_learning_rate: float
    muon_momentum: float
    muon_steps: int
    opt_base_learning_rate: float  # Adam's, for embeddings and gains
    opt_adam_beta_1: float
    opt_adam_beta_2: float
    opt_weight_decay: float  # decoupled, of the matrices; relative to the learning rate

    def learning_rate(self, step: int, steps_per_epoch: int) -> float:
        """The factor on the learning rates: linear up over `warmup_steps`, then linear to zero.

        A schedule that is no longer than its warm-up, as with large batches, ends while the rates rise.
        """
        steps = self.epochs * steps_per_epoch
        rise, fall = (step + 1) / max(self.warmup_steps, 1), (steps - step) / max(steps - self.warmup_steps, 1)
        return max(min(rise, fall), 0.0)


def vocabulary(data: Mapping[str, np.ndarray]) -> int:
    """The number of subwords."""
    import sentencepiece

    return int(sentencepiece.SentencePieceProcessor(model_proto=data["subword_model"].tobytes()).vocab_size())


def shapes_of(hyper: Network) -> dict[str, tuple[int, ...]]:
    """The shape of each layer's weight, by the layer's name, except the embedding's; matrices are [out, in]."""
    d, f = hyper.d_model, hyper.d_ff
    shapes: dict[str, tuple[int, ...]] = {}
    for stack, layers in (("encoder", hyper.encoder_layers), ("decoder", hyper.decoder_layers)):
        sublayers = ("self_attn",) if stack == "encoder" else ("self_attn", "cross_attn")
        for i in range(layers):
            shapes |= {f"{stack}.{i}.{sub}.{part}": (d, d) for sub in sublayers for part in ("q", "k", "v", "out")}
            shapes |= {f"{stack}.{i}.linear1": (f, d), f"{stack}.{i}.linear2": (d, f)}
            shapes |= {f"{stack}.{i}.norm{j}": (d,) for j in range(1, len(sublayers) + 2)}
        shapes[f"{stack}_norm"] = (d,)
    return shapes


def initial_parameters(hyper: Network, subwords: int, seed: int) -> dict[str, np.ndarray]:
    """Parameters float32 by name.

    Matrices are uniform with deviation 1 / sqrt(in), embeddings normal with deviation 1 / sqrt(d_model), the gains one.
    """
    random = np.random.default_rng([seed, INIT_STREAM])
    d, shapes = hyper.d_model, shapes_of(hyper)
    parameters: dict[str, np.ndarray] = {"embedding.weight": random.normal(0, d**-0.5, (subwords, d))}
    for name, shape in shapes.items():
        bound = (3 / shape[-1]) ** 0.5
        parameters[f"{name}.weight"] = np.ones(shape) if len(shape) == 1 else random.uniform(-bound, bound, shape)
    return {name: value.astype(np.float32) for name, value in parameters.items()}


def is_matrix(name: str) -> bool:
    """Whether a parameter is trained with Muon; embeddings and gains are trained with Adam."""
    return "norm" not in name and not name.startswith("embedding")


def positions(length: int, width: int) -> np.ndarray:
    """Sinusoidal position codes float32 [length, width] (Vaswani et al. 2017), sines in the first half."""
    rates = 10_000.0 ** (-np.arange(width // 2) / (width // 2))
    angles = np.arange(length)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)


def padded(subwords: np.ndarray) -> np.ndarray:
    """Sentences that follow one another, each ended by END, as rows int32 [N, L], padded with PAD.

    Raises UserError for a sentence of more than POSITIONS subwords.
    """
    ends = np.flatnonzero(subwords == END) + 1
    lengths = np.diff(ends, prepend=0)
    if max(lengths) > POSITIONS:
        raise UserError(f"a sentence has {max(lengths)} subwords; the reference takes {POSITIONS} at most")
    filled = np.full((len(lengths), -(-max(lengths) // BUCKETS[-1]) * BUCKETS[-1]), PAD, np.int32)
    filled[np.arange(filled.shape[1]) < lengths[:, None]] = subwords
    return filled


def lengths(rows: np.ndarray) -> np.ndarray:
    """How many subwords each of `rows` [N, L] has, END counted."""
    counts: np.ndarray = (rows != PAD).sum(1)
    return counts


def bucket(length: int, kind: str) -> int:
    """The length to which a batch is padded on a device of this kind: on a CPU few wasted subwords, else few shapes."""
    if kind == "cpu":
        return -(-length // 2) * 2
    return next((fitting for fitting in BUCKETS if fitting >= length), -(-length // BUCKETS[-1]) * BUCKETS[-1])


@dataclass(frozen=True)
class Batch:
    """Which pairs, int64 [B], and the lengths to which they are padded."""

    rows: np.ndarray
    source_length: int
    target_length: int


class Batches:
    """The training batches of one seed, in order, from any step on; sentences of similar length come together.

    Each epoch leaves out random pairs, fewer than a batch.
    """

    def __init__(self, source: np.ndarray, target: np.ndarray, hyper: Hyperparameters, seed: int, kind: str) -> None:
        """`source` and `target` are `padded`; batches are for a device of this `kind`."""
        self.lengths, self.hyper, self.seed, self.kind = (lengths(source), lengths(target)), hyper, seed, kind
        self.steps_per_epoch = steps(len(source), hyper.global_batch_size, "sentence pairs")

    def iterate(self, step: int) -> Iterator[Batch]:
        """Batches without end, from `step` on."""
        size = self.hyper.global_batch_size
        while True:
            epoch, within = divmod(step, self.steps_per_epoch)
            random = np.random.default_rng([self.seed, epoch])
            chosen = random.permutation(len(self.lengths[0]))[: self.steps_per_epoch * size]
            source, target = (lengths[chosen] for lengths in self.lengths)
            by_length = chosen[np.lexsort((source, np.maximum(source, target)))].reshape(-1, size)
            for rows in by_length[random.permutation(self.steps_per_epoch)[within:]]:
                source_length, target_length = (bucket(int(lengths[rows].max()), self.kind) for lengths in self.lengths)
                if self.kind == "gpu":
                    source_length = target_length = max(source_length, target_length)
                yield Batch(rows, source_length, target_length)
                step += 1
