"""What both frameworks share: initial parameters, the order of the text, dropout and schedule, in numpy.

Everything is a function of the seed and of the step, so a checkpoint needs no random state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from reference_impls.recipe import Recipe
from tasks.language_modeling import CHUNK, EOS

EVAL_SEGMENT = 4096  # words of the test text that the network reads at once
DECIMALS = 4  # of a predicted log-probability
FP16_LOSS_SCALE = 1024.0
_INIT_STREAM, _DROPOUT_STREAM = 1_000_001, 1_000_002  # random streams apart from those of the epochs


@dataclass(frozen=True)
class Hyperparameters(Recipe):
    """The fixed recipe; names follow MLPerf's log keys where there is one. A sample is one word."""

    global_batch_size: int  # words in one step
    segment_length: int  # words of each stream in one step, and how far the pointer looks back; gradients go no further
    width: int
    layers: int
    cutoffs: tuple[int, ...]  # where the vocabulary's tails begin; words before the first are the head
    tail_widths: tuple[int, ...]  # of the embeddings in each tail
    dropout: float
    schedule_samples: int  # the learning rate falls to zero by then
    warmup_fraction: float
    muon_learning_rate: float
    muon_momentum: float
    muon_steps: int
    adam_learning_rate: float
    opt_adam_beta_1: float
    opt_adam_beta_2: float
    opt_adam_epsilon: float

    @property
    def streams(self) -> int:
        """How many places of the text are read in parallel."""
        return self.global_batch_size // self.segment_length

    def tails(self, words: int) -> list[tuple[int, int]]:
        """The tails' first words, and the words after their last."""
        return list(zip(self.cutoffs, (*self.cutoffs[1:], words), strict=True)) if self.cutoffs else []

    def learning_rate(self, step: int) -> float:
        """The factor on the learning rates in a step: linear from zero to 1, then to zero."""
        done, warm = step * self.global_batch_size / self.schedule_samples, self.warmup_fraction
        rise = (step + 1) * self.global_batch_size / (warm * self.schedule_samples)
        return max(0.0, min(rise, (1 - done) / (1 - warm), 1.0))


def initial_parameters(hyper: Hyperparameters, words: int, seed: int) -> dict[str, np.ndarray]:
    """Parameters float32 by name. Residual branches start at zero; input gates range from forgetting to keeping.

    `head` [first cutoff, width] and `tail<i>` [size, tail width] embed words, on the way in and on the way out;
    `project<i>` [width, tail width]; `tails` [tails, width] are the classes that stand for a tail in the first softmax.
    The pointer begins with all places alike, and with little of the probability.
    """
    random = np.random.default_rng([seed, _INIT_STREAM])
    width = hyper.width

    def normal(*shape: int, fan: int, gain: float = 1.0) -> np.ndarray:
        drawn: np.ndarray = gain * fan**-0.5 * random.standard_normal(shape)
        return drawn

    parameters = {
        "head": normal(hyper.cutoffs[0] if hyper.cutoffs else words, width, fan=width, gain=0.1),
        "tails": np.zeros((len(hyper.cutoffs), width)),
        "bias": np.zeros(words + len(hyper.cutoffs)),
    }
    for i, ((first, end), narrow) in enumerate(zip(hyper.tails(words), hyper.tail_widths, strict=True)):
        parameters[f"tail{i}"] = normal(end - first, narrow, fan=narrow, gain=0.1)
        parameters[f"project{i}"] = normal(width, narrow, fan=width)
    for i in range(hyper.layers):
        parameters[f"gates{i}"] = normal(3 * width, 2 * width, fan=2 * width)
        parameters[f"forget{i}"] = np.linspace(-1, 3, width)
        parameters[f"mix{i}"] = np.zeros((width, width))
    parameters["query"] = np.zeros((width, width))
    parameters["sentinel"] = np.zeros((1, width))
    parameters["sentinel_bias"] = np.full(1, np.log(8 * hyper.segment_length))
    return {name: value.astype(np.float32) for name, value in parameters.items()}


def initial_carry(hyper: Hyperparameters, streams: int) -> dict[str, np.ndarray]:
    """What a segment takes over from the one before it, where there is none.

    `layers` float32 [layers, 2, streams, width], each layer's last input and last state; for the pointer the last
    `outputs` float32 [segment_length, streams, width] and `words` int64 [segment_length, streams], -1 for no word.
    """
    return {
        "layers": np.zeros((hyper.layers, 2, streams, hyper.width), np.float32),
        "outputs": np.zeros((hyper.segment_length, streams, hyper.width), np.float32),
        "words": np.full((hyper.segment_length, streams), -1),
    }


def is_matrix(name: str) -> bool:
    """Whether Muon trains the parameter: the matrices of the layers and of the pointer; Adam trains the others."""
    return name.startswith(("gates", "mix", "query"))


@dataclass(frozen=True)
class Batch:
    """One step: `words` and the `targets` after them int64 [T, B], dropout `masks` float32 [layers + 2, B, width].

    `fresh` says that the streams begin anew here. A mask holds for all words of a stream (Gal and Ghahramani 2016).
    """

    words: np.ndarray
    targets: np.ndarray
    masks: np.ndarray
    fresh: bool


class Batches:
    """The training batches of one seed, in order, from any step on.

    In each epoch the text is cut into streams at other places: it begins at a random word and closes like a ring.
    """

    def __init__(self, tokens: np.ndarray, hyper: Hyperparameters, seed: int) -> None:
        self.tokens, self.hyper, self.seed = np.array(tokens, np.int64), hyper, seed
        self.steps_per_epoch = len(tokens) // hyper.global_batch_size

    def iterate(self, step: int) -> Iterator[Batch]:
        """Batches without end, from `step` on."""
        length = self.hyper.segment_length
        streams = self.hyper.streams
        used = self.steps_per_epoch * self.hyper.global_batch_size
        while True:
            epoch, within = divmod(step, self.steps_per_epoch)
            start = int(np.random.default_rng([self.seed, epoch]).integers(len(self.tokens)))
            words, targets = (
                np.roll(self.tokens, -begin)[:used].reshape(streams, -1).T for begin in (start, start + 1)
            )
            for first in range(within, self.steps_per_epoch):
                part = slice(first * length, (first + 1) * length)
                yield Batch(words[part], targets[part], dropout_masks(self.hyper, self.seed, step), first == 0)
                step += 1


def dropout_masks(hyper: Hyperparameters, seed: int, step: int) -> np.ndarray:
    """float32 [layers + 2, B, width] of zeros and 1 / (1 - dropout): for the embeddings, each layer and the output."""
    random = np.random.default_rng([seed, _DROPOUT_STREAM, step])
    kept = random.random((hyper.layers + 2, hyper.streams, hyper.width), np.float32) >= hyper.dropout
    return kept.astype(np.float32) / np.float32(1 - hyper.dropout)


def segments(
    tokens: np.ndarray, vocabulary: np.ndarray, audited: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The text `tokens` in segments: `words` and the `targets` after them int64 [EVAL_SEGMENT], and audited places."""
    text = tokens.astype(np.int64)
    whole = -len(text) % EVAL_SEGMENT
    before = np.flatnonzero(vocabulary == EOS)
    words = np.pad(np.concatenate([before, text[:-1]]), (0, whole)).reshape(-1, EVAL_SEGMENT)
    targets = np.pad(text, (0, whole)).reshape(-1, EVAL_SEGMENT)
    segment, place = np.divmod(audited, EVAL_SEGMENT)
    return [(words[i], targets[i], place[segment == i]) for i in range(len(words))]


def predictions(parts: Sequence[tuple[np.ndarray, np.ndarray]], length: int) -> list[list[float]]:
    """The predictions of `tasks.language_modeling` for a text of `length` words.

    `parts` holds of each segment the targets' log-probabilities [EVAL_SEGMENT] and the distributions [places, V].
    """
    log_probabilities = np.concatenate([part for part, _ in parts])[:length]
    chunks: Sequence[np.ndarray] = np.split(log_probabilities, range(CHUNK, length, CHUNK))
    rows = [*chunks, *np.concatenate([distributions for _, distributions in parts])]
    return [np.round(np.minimum(row, 0.0).astype(np.float64), DECIMALS).tolist() for row in rows]
