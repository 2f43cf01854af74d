"""What both frameworks share: initial parameters, the order of the text and the schedule, in numpy.

Everything is a function of the seed and of the step, so a checkpoint needs no random state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from reference_impls.recipe import Recipe
from reference_impls.shares import steps
from tasks.language_modeling import CHUNK, EOS

EVAL_SEGMENT = 4096  # words of the test text that the network reads at once
DECIMALS = 4  # of a predicted log-probability
EPSILON = 1e-6  # of the normalisation
TINY = 1e-30  # keeps the logarithm of a probability finite
AUDITED = ("audited_outputs", "audited_places", "audited_chosen", "audited_left")
STREAMS = {"layers": 2, "outputs": 1, "words": 1}  # which axis of a carry's arrays the streams are, see `initial_carry`
BLOCK = 8  # places of a block of a sequence; the recurrence steps through all blocks at once
_INIT_STREAM = 1_000_001  # a random stream apart from those of the epochs


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

    def __post_init__(self) -> None:
        self.require_multiple_of("segment_length", "the words of a stream")

    @property
    def streams(self) -> int:
        """How many places of the text are read in parallel."""
        return self.global_batch_size // self.segment_length

    def tails(self, words: int) -> list[tuple[int, int]]:
        """Each tail's first word, and the word after its last."""
        return list(zip(self.cutoffs, (*self.cutoffs[1:], words), strict=True)) if self.cutoffs else []

    def learning_rate(self, step: int) -> float:
        """The factor on the learning rates in a step: linear from zero to 1, then to zero."""
        done, warm = step * self.global_batch_size / self.schedule_samples, self.warmup_fraction
        rise = (step + 1) * self.global_batch_size / max(warm * self.schedule_samples, 1)
        return max(0.0, min(rise, (1 - done) / (1 - warm), 1.0))


def initial_parameters(hyper: Hyperparameters, words: int, seed: int) -> dict[str, np.ndarray]:
    """Parameters float32 by PyTorch's names and in its layouts.

    Residual branches start at zero; the forget gates of a layer range from forgetting to keeping. The pointer starts
    with all places alike, and with little of the probability.
    """
    random = np.random.default_rng([seed, _INIT_STREAM])
    width, tails = hyper.width, hyper.tails(words)
    frequent = tails[0][0] if tails else words

    def normal(*shape: int, fan: int, gain: float = 1.0) -> np.ndarray:
        drawn: np.ndarray = gain * fan**-0.5 * random.standard_normal(shape)
        return drawn

    head = normal(frequent, width, fan=width, gain=0.1)
    parameters = {
        "vocabulary.head.weight": np.concatenate([head, np.zeros((len(tails), width))]),
        "vocabulary.bias": np.zeros(frequent + len(tails)),
    }
    for i, ((first, end), narrow) in enumerate(zip(tails, hyper.tail_widths, strict=True)):
        parameters[f"vocabulary.tails.{i}.embedding.weight"] = normal(end - first, narrow, fan=narrow, gain=0.1)
        parameters[f"vocabulary.tails.{i}.project.weight"] = normal(width, narrow, fan=width)
        parameters[f"vocabulary.tails.{i}.bias"] = np.zeros(end - first)
    for i in range(hyper.layers):
        parameters[f"layers.{i}.gates"] = normal(3, width, 2 * width, fan=2 * width)
        parameters[f"layers.{i}.forget"] = np.linspace(-1, 3, width)
        parameters[f"layers.{i}.mix.weight"] = np.zeros((width, width))
    parameters["pointer.query.weight"] = np.zeros((width, width))
    parameters["pointer.sentinel.weight"] = np.zeros((1, width))
    parameters["pointer.sentinel.bias"] = np.full(1, np.log(8 * hyper.segment_length))
    return {name: value.astype(np.float32) for name, value in parameters.items()}


def initial_carry(hyper: Hyperparameters, streams: int) -> dict[str, np.ndarray]:
    """The carry of a first segment, in place of what a segment takes over from the one before it.

    `layers` float32 [layers, 2, streams, width], each layer's last input and last state; for the pointer the last
    `outputs` float32 [segment_length, streams, width] and `words` int64 [segment_length, streams], -1 for no word.
    """
    return {
        "layers": np.zeros((hyper.layers, 2, streams, hyper.width), np.float32),
        "outputs": np.zeros((hyper.segment_length, streams, hyper.width), np.float32),
        "words": np.full((hyper.segment_length, streams), -1),
    }


def nothing_audited(hyper: Hyperparameters, audited: int) -> dict[str, np.ndarray]:
    """What the carry of a test text keeps of its audited places, still zero: outputs [A, W] and the pointer's results.

    The latter are the words [A, 2 L] around each, their probabilities, and the probability [A] left to the vocabulary.
    """
    around = (audited, 2 * hyper.segment_length)
    arrays = (
        np.zeros((audited, hyper.width), np.float32),
        np.zeros(around, np.int64),
        np.zeros(around, np.float32),
        np.zeros(audited, np.float32),
    )
    return dict(zip(AUDITED, arrays, strict=True))


def is_matrix(name: str) -> bool:
    """Whether Muon trains the parameter: the matrices of the layers and of the pointer; Adam trains the others."""
    return name.endswith((".gates", ".mix.weight", ".query.weight"))


@dataclass(frozen=True)
class Batch:
    """One step: `words` and the `targets` after them int32 [T, B], the `begin` of the first stream in the text.

    `fresh` says that the streams begin anew here.
    """

    words: np.ndarray
    targets: np.ndarray
    begin: int
    fresh: bool


class Batches:
    """The training batches of one seed, in order, from any step on.

    In each epoch the text is cut into streams at other places: it starts at a random word and wraps around.
    """

    def __init__(self, tokens: np.ndarray, hyper: Hyperparameters, seed: int) -> None:
        self.tokens, self.hyper, self.seed = np.array(tokens, np.int32), hyper, seed
        self.steps_per_epoch = steps(len(tokens), hyper.global_batch_size, "words")
        self.places = places(len(tokens), hyper)

    def iterate(self, step: int) -> Iterator[Batch]:
        """Batches without end, from `step` on."""
        while True:
            epoch, within = divmod(step, self.steps_per_epoch)
            start = int(np.random.default_rng([self.seed, epoch]).integers(len(self.tokens)))
            for part in range(within, self.steps_per_epoch):
                begin = start + part * self.hyper.segment_length
                read = self.tokens.take(begin + self.places, mode="wrap")
                yield Batch(read[:-1], read[1:], begin, part == 0)
                step += 1


def places(length: int, hyper: Hyperparameters) -> np.ndarray:
    """Places int64 [T + 1, B] of a batch's words in a text of `length` words, relative to the batch's first word."""
    stream = length // hyper.global_batch_size * hyper.segment_length
    return np.arange(hyper.segment_length + 1)[:, None] + stream * np.arange(hyper.streams)


def rooms(hyper: Hyperparameters, vocabulary: int, words: int) -> list[list[int]]:
    """How many places of each tail a batch of `words` words has room for: usually, and at most.

    Usually 1.5 times the mean by Zipf's law or, if that is more, the mean plus eight standard deviations of independent
    words. No batch of WikiText-2 has more, so a GPU compiles for this alone before the clock starts.
    """
    means = [words * np.log(end / first) / np.log(vocabulary) for first, end in hyper.tails(vocabulary)]
    usual = [min(words, 64 * math.ceil(max(1.5 * mean, mean + 8 * mean**0.5) / 64)) for mean in means]
    return [usual, [words] * len(means)] if means else []


def rare_words(
    words: np.ndarray, tails: Sequence[tuple[int, int]], rooms: Sequence[Sequence[int]] = ()
) -> list[np.ndarray]:
    """The places of each tail's words among N `words`, int32; an empty list without tails.

    First the `row` [N] of each word in the concatenation of all N words and of the places that follow; then for each
    tail the places of its words, padded with zeros to the smallest of `rooms` that holds them all, if any are given.
    """
    if not tails:
        return []
    flat = words.reshape(-1)
    found = [np.flatnonzero((flat >= first) & (flat < end)).astype(np.int32) for first, end in tails]
    counts = [len(each) for each in found]
    room = next((r for r in rooms if all(c <= size for c, size in zip(counts, r, strict=True))), counts)
    row, after = np.arange(len(flat), dtype=np.int32), len(flat)
    for each, size in zip(found, room, strict=True):
        row[each] = np.arange(after, after + len(each))
        after += size
    return [row, *(np.pad(each, (0, size - len(each))) for each, size in zip(found, room, strict=True))]


def made_up_text(hyper: Hyperparameters, vocabulary: int) -> np.ndarray:
    """A text to warm up on, of two test segments or two batches if these are longer, with words of every frequency."""
    length = 2 * max(EVAL_SEGMENT, hyper.global_batch_size)
    return (vocabulary ** np.random.default_rng(0).random(length)).astype(np.int64)


@dataclass(frozen=True)
class Segment:
    """`EVAL_SEGMENT` words of the test text: `words` and the `targets` after them int64 [EVAL_SEGMENT, 1].

    `at` int64 [A] are the audited places, and `here` bool [A] says which of them are in this segment.
    """

    words: np.ndarray
    targets: np.ndarray
    at: np.ndarray
    here: np.ndarray


def segments(tokens: np.ndarray, vocabulary: np.ndarray, audited: np.ndarray) -> list[Segment]:
    """The text `tokens` in segments, the last padded."""
    text = tokens.astype(np.int64)
    whole = -len(text) % EVAL_SEGMENT
    before = np.flatnonzero(vocabulary == EOS)
    words = np.pad(np.concatenate([before, text[:-1]]), (0, whole)).reshape(-1, EVAL_SEGMENT, 1)
    targets = np.pad(text, (0, whole)).reshape(-1, EVAL_SEGMENT, 1)
    segment, at = np.divmod(np.asarray(audited, np.int64), EVAL_SEGMENT)
    return [Segment(words[i], targets[i], at, segment == i) for i in range(len(words))]


def predictions(
    log_probabilities: np.ndarray, distributions: np.ndarray, tokens: np.ndarray, audited: np.ndarray
) -> list[list[float]]:
    """The predictions of `tasks.language_modeling` for the text `tokens`.

    `log_probabilities` float32 [segments, EVAL_SEGMENT] of its words, `distributions` [A, V] at the audited places.
    An audited word's log-probability is taken from its distribution: matrix products of other shapes round
    differently, in bf16 by more than 0.001.
    """
    text = log_probabilities.reshape(-1)[: len(tokens)].copy()
    text[audited] = distributions[np.arange(len(audited)), tokens[audited]]
    rows = [*np.split(text, range(CHUNK, len(text), CHUNK)), *distributions]
    return [np.round(np.minimum(row, 0.0).astype(np.float64), DECIMALS).tolist() for row in rows]
