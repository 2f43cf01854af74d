"""What both frameworks share: initial parameters, batches, dropout masks and the schedule, in numpy.

Everything is a function of the seed and of the step, so a checkpoint needs no random state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from reference_impls.recipe import Recipe
from tasks.translation import BEGIN, END, PAD

FP16_LOSS_SCALE = 1024.0
_INIT_STREAM, _DROPOUT_STREAM = 1_000_001, 1_000_002  # random streams apart from those of the epochs
POSITIONS = 512  # the longest sequence that is embedded
_ROUND = 2  # lengths of batches are multiples of this, for fewer shapes


@dataclass(frozen=True)
class Hyperparameters(Recipe):
    """The fixed recipe; names follow MLPerf's log keys where there is one."""

    global_batch_size: int  # sentence pairs
    epochs: float  # of the schedule, warm-up included; the learning rates reach zero at its end
    warmup_steps: int
    d_model: int  # width of embeddings and layers
    heads: int
    d_ff: int  # width of the feed-forward sublayers
    encoder_layers: int
    decoder_layers: int
    dropout: float  # of embeddings and of each sublayer's output
    label_smoothing: float
    muon_learning_rate: float
    muon_momentum: float
    muon_steps: int
    opt_base_learning_rate: float  # Adam's, for embeddings and gains
    opt_adam_beta_1: float
    opt_adam_beta_2: float
    opt_weight_decay: float  # decoupled, of the matrices; relative to the learning rate
    beam_size: int
    length_penalty: float  # hypotheses compare by log probability / length ** length_penalty

    def learning_rate(self, step: int, steps_per_epoch: int) -> float:
        """The factor on the learning rates: linear up over `warmup_steps`, then linear to zero."""
        steps = self.epochs * steps_per_epoch
        return max(min((step + 1) / self.warmup_steps, (steps - step) / (steps - self.warmup_steps)), 0.0)


def vocabulary(data: Mapping[str, np.ndarray]) -> int:
    """The number of subwords."""
    import sentencepiece

    return int(sentencepiece.SentencePieceProcessor(model_proto=data["subword_model"].tobytes()).vocab_size())


def initial_parameters(hyper: Hyperparameters, subwords: int, seed: int) -> dict[str, np.ndarray]:
    """Parameters float32 by name; matrices are [out, in], those of one input stacked as [n, out, in].

    Matrices are uniform with deviation 1 / sqrt(in), embeddings normal with deviation 1 / sqrt(d_model), the gains one.
    """
    random = np.random.default_rng([seed, _INIT_STREAM])
    d, f = hyper.d_model, hyper.d_ff
    shapes: dict[str, tuple[int, ...]] = {}
    for stack, layers in (("encoder", hyper.encoder_layers), ("decoder", hyper.decoder_layers)):
        for i in range(layers):
            name = f"{stack}{i}"
            shapes |= {f"{name}_self_gain": (d,), f"{name}_self_qkv": (3, d, d), f"{name}_self_out": (d, d)}
            if stack == "decoder":
                shapes |= {f"{name}_cross_gain": (d,), f"{name}_cross_q": (d, d)}
                shapes |= {f"{name}_cross_kv": (2, d, d), f"{name}_cross_out": (d, d)}
            shapes |= {f"{name}_feed_gain": (d,), f"{name}_feed_in": (f, d), f"{name}_feed_out": (d, f)}
        shapes[f"{stack}_gain"] = (d,)
    parameters: dict[str, np.ndarray] = {"embedding": random.normal(0, d**-0.5, (subwords, d))}
    for name, shape in shapes.items():
        bound = (3 / shape[-1]) ** 0.5
        parameters[name] = np.ones(shape) if name.endswith("_gain") else random.uniform(-bound, bound, shape)
    return {name: value.astype(np.float32) for name, value in parameters.items()}


def is_matrix(name: str) -> bool:
    """Whether a parameter is trained with Muon; embeddings and gains are trained with Adam."""
    return name != "embedding" and not name.endswith("_gain")


def positions(length: int, width: int) -> np.ndarray:
    """Sinusoidal position codes float32 [length, width] (Vaswani et al. 2017), sines in the first half."""
    rates = 10_000.0 ** (-np.arange(width // 2) / (width // 2))
    angles = np.arange(length)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)


def sentences(subwords: np.ndarray) -> list[np.ndarray]:
    """The sentences of an array that holds one after the other, each ended by END."""
    subwords = np.array(subwords)
    return np.split(subwords, np.flatnonzero(subwords == END) + 1)[:-1]


def padded(rows: list[np.ndarray]) -> np.ndarray:
    """Sentences as int32 [B, L], filled up with PAD to a multiple of _ROUND."""
    length = -(-max(map(len, rows)) // _ROUND) * _ROUND
    filled = np.full((len(rows), length), PAD, np.int32)
    for row, values in zip(filled, rows, strict=True):
        row[: len(values)] = values
    return filled


@dataclass(frozen=True)
class Batch:
    """Subwords int32: `source` [B, S]; `inputs` [B, T], which begin with BEGIN; `labels` [B, T], which end with END.

    `noise` is the source of the dropout masks: uint8 [sites, B, S, d_model] of the encoder, [sites, B, T, d_model] of
    the decoder. A value is dropped where it is less than 256 * dropout.
    """

    source: np.ndarray
    inputs: np.ndarray
    labels: np.ndarray
    noise: tuple[np.ndarray, np.ndarray]


def make_batch(hyper: Hyperparameters, rows: list[np.ndarray], targets: list[np.ndarray], seed: list[int]) -> Batch:
    """A batch of these sentences, its dropout drawn from `seed`."""
    source, labels = padded(rows), padded(targets)
    inputs = np.concatenate([np.full((len(rows), 1), BEGIN, np.int32), labels[:, :-1]], 1)
    random = np.random.SFC64(seed)

    def noise(sites: int, length: int) -> np.ndarray:
        words = random.random_raw(sites * len(rows) * length * hyper.d_model // 8)
        return words.view(np.uint8).reshape(sites, len(rows), length, hyper.d_model)

    encoder, decoder = 1 + 2 * hyper.encoder_layers, 1 + 3 * hyper.decoder_layers
    return Batch(source, inputs, labels, (noise(encoder, source.shape[1]), noise(decoder, labels.shape[1])))


class Batches:
    """The training batches of one seed, in order, from any step on; sentences of like lengths come together.

    In each epoch another random few, less than a batch, are left out.
    """

    def __init__(self, source: np.ndarray, target: np.ndarray, hyper: Hyperparameters, seed: int) -> None:
        self.source, self.target, self.hyper, self.seed = sentences(source), sentences(target), hyper, seed
        self.lengths = [np.array([len(row) for row in side]) for side in (self.source, self.target)]
        self.steps_per_epoch = len(self.source) // hyper.global_batch_size

    def iterate(self, step: int) -> Iterator[Batch]:
        """Batches without end, from `step` on."""
        size = self.hyper.global_batch_size
        while True:
            epoch, within = divmod(step, self.steps_per_epoch)
            random = np.random.default_rng([self.seed, epoch])
            chosen = random.permutation(len(self.source))[: self.steps_per_epoch * size]
            source, target = (lengths[chosen] for lengths in self.lengths)
            by_length = chosen[np.lexsort((source, np.maximum(source, target)))].reshape(-1, size)
            for rows in by_length[random.permutation(self.steps_per_epoch)[within:]]:
                source_rows, target_rows = ([side[i] for i in rows] for side in (self.source, self.target))
                yield make_batch(self.hyper, source_rows, target_rows, [self.seed, _DROPOUT_STREAM, step])
                step += 1
