"""The language model in TensorFlow: the twin of `torch_network.py`, module by module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from reference_impls.language_modeling.shared import BLOCK, EPSILON, TINY, Hyperparameters
from reference_impls.tensorflow_shared import Dense, narrow, with_bias

Carry = Mapping[str, Any]  # see `shared.initial_carry`
Rare = Sequence[tf.Tensor]  # see `shared.rare_words`; empty where no word is rare
Pointed = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # see `Pointer`
Backward = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor, None]]


def normalise(x: tf.Tensor) -> tf.Tensor:
    """`x` scaled to root mean square 1 along the last axis."""
    return x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + EPSILON)


def multiply(x: tf.Tensor, weight: Any, dtype: Any, bias: Any = None) -> tf.Tensor:
    """x [N, in] times weight [out, in], plus bias [out], in `dtype`; float32 [N, out]."""
    product = tf.matmul(tf.cast(x, dtype), tf.cast(weight, dtype), transpose_b=True)
    if bias is not None:
        product = with_bias(product, bias)
    return tf.cast(product, tf.float32)


def chosen(parts: Sequence[tf.Tensor], rows: tf.Tensor) -> tf.Tensor:
    """Some rows of the concatenated parts; the gradient is dense, as splitting a sparse one needs shapes not known."""
    together = tf.concat(parts, 0)
    return tf.gather(tf.reshape(together, tf.shape(together)), rows)  # the gradient of a reshape is dense


def scan(keep: tf.Tensor, new: tf.Tensor, last: tf.Tensor, backwards: bool = False) -> tf.Tensor:
    """h[t] = keep[t] h[t-1] + new[t] along the first axis of `keep` and `new` [T, ...], from h[-1] = `last` [...].

    With `backwards` h[t] = keep[t] h[t+1] + new[t], from h[T] = `last`. See `torch_network.scan`.
    """
    whole = new.shape[0] % BLOCK == 0 and new.shape[0] > BLOCK
    shape = (-1, BLOCK, *new.shape[1:])
    pairs = [tf.unstack(tf.reshape(a, shape), axis=1) if whole else tf.unstack(a) for a in (new, keep)]
    steps = list(zip(*pairs, strict=True))
    steps = steps[::-1] if backwards else steps
    if whole:
        end, decay = steps[0]
        for added, kept in steps[1:]:
            end, decay = added + kept * end, kept * decay
        ends = scan(decay, end, last, backwards)
        last = tf.concat([ends[1:], last[None]] if backwards else [last[None], ends[:-1]], 0)
    states = []
    for added, kept in steps:
        last = added + kept * last
        states.append(last)
    states = states[::-1] if backwards else states
    return tf.reshape(tf.stack(states, 1), new.shape) if whole else tf.stack(states)


def recurrence_and_gradient(keep: tf.Tensor, new: tf.Tensor, last: tf.Tensor) -> tuple[tf.Tensor, Backward]:
    """`scan` of [T, B, W], and its gradient, which is another scan, backwards; `last` gets none."""
    states = scan(keep, new, last)

    def backward(gradient: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, None]:
        later = tf.concat([keep[1:], tf.zeros_like(keep[:1])], 0)
        to_new = scan(later, gradient, tf.zeros_like(last), backwards=True)
        return to_new * tf.concat([last[None], states[:-1]], 0), to_new, None

    return states, backward


recurrence: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor] = tf.custom_gradient(recurrence_and_gradient)


def dropout(x: tf.Tensor, rate: float, seed: tf.Tensor | None, site: int) -> tf.Tensor:
    """Variational dropout (Gal and Ghahramani 2016) of x [T, B, W]: one mask for all words of a stream.

    `seed` int32 [2] and `site` determine the mask; without a seed nothing is dropped.
    """
    if seed is None or rate == 0:
        return x
    seed = tf.random.experimental.stateless_fold_in(seed, site)
    return x * tf.nn.experimental.stateless_dropout(tf.ones(x.shape[1:]), rate, seed)


class Tail(keras.layers.Layer):
    """Rare words, with narrow embeddings that are input (Baevski and Auli 2019) and output weights alike."""

    def __init__(self, size: int, narrow: int, width: int, policy: keras.DTypePolicy, name: str) -> None:
        super().__init__(name=name)
        self.size, self.low = size, policy.compute_dtype
        self.embedding = keras.layers.Embedding(size, narrow, name="embedding")
        self.project = keras.layers.Dense(width, use_bias=False, dtype=policy, name="project")

    def build(self, shape: Any) -> None:
        """Make the bias of each word."""
        self.bias = self.add_weight(shape=(self.size,), initializer="zeros", name="bias")

    def call(self, words: tf.Tensor) -> tf.Tensor:
        """Embeddings float32 [N, W] of words [N], which count from the tail's first."""
        return tf.cast(self.project(self.embedding(words)), tf.float32)

    def logits(self, x: tf.Tensor) -> tf.Tensor:
        """Logits float32 [N, size] of x [N, W]."""
        narrow = multiply(x, self.project.kernel, self.low)
        return multiply(narrow, self.embedding.embeddings, self.low, self.bias)


class Vocabulary(keras.layers.Layer):
    """Embeds words and, with the same weights, predicts them: an adaptive softmax (Grave et al. 2017).

    The rows of `head` are the frequent words, and after them a class for each tail.
    """

    def __init__(self, hyper: Hyperparameters, words: int, policy: keras.DTypePolicy) -> None:
        super().__init__(name="vocabulary")
        self.low = policy.compute_dtype
        self.bounds = hyper.tails(words)
        self.frequent = self.bounds[0][0] if self.bounds else words
        self.head = keras.layers.Embedding(self.frequent + len(self.bounds), hyper.width, name="head")
        self.tails = [
            Tail(end - first, narrow, hyper.width, policy, f"tails.{i}")
            for i, ((first, end), narrow) in enumerate(zip(self.bounds, hyper.tail_widths, strict=True))
        ]

    def build(self, *shapes: Any) -> None:
        """Make the bias of each frequent word and of each tail."""
        size = self.frequent + len(self.bounds)
        self.bias = self.add_weight(shape=(size,), initializer="zeros", name="bias")

    def call(self, words: tf.Tensor, rare: Rare) -> tf.Tensor:
        """Embeddings float32 [N, W] of words [N]."""
        rows = [self.head(tf.minimum(words, self.frequent - 1))]
        rows += [tail(within) for tail, within, _ in self._each(words, rare)]
        return rows[0] if len(rows) == 1 else chosen(rows, rare[0])

    def log_probabilities(self, x: tf.Tensor, words: tf.Tensor, rare: Rare) -> tf.Tensor:
        """Log-probabilities float32 [N] of words [N] after x [N, W]."""
        classes = tf.minimum(words, self.frequent - 1)
        for i, (first, _) in enumerate(self.bounds):
            classes = tf.where(words >= first, tf.cast(self.frequent + i, classes.dtype), classes)
        known = -tf.nn.sparse_softmax_cross_entropy_with_logits(classes, self._head_logits(x))
        within = [tf.zeros_like(known)]
        for tail, words_within, places in self._each(words, rare):
            logits = tail.logits(tf.gather(x, places))
            within.append(-tf.nn.sparse_softmax_cross_entropy_with_logits(words_within, logits))
        return known if len(within) == 1 else known + chosen(within, rare[0])

    def distribution(self, x: tf.Tensor) -> tf.Tensor:
        """The log-probabilities float32 [N, V] of all words after x [N, W]."""
        head = tf.nn.log_softmax(self._head_logits(x))
        parts = [head[:, : self.frequent]]
        for i, tail in enumerate(self.tails):
            parts.append(head[:, self.frequent + i, None] + tf.nn.log_softmax(tail.logits(x)))
        return tf.concat(parts, -1)

    def _head_logits(self, x: tf.Tensor) -> tf.Tensor:
        return multiply(x, self.head.embeddings, self.low, self.bias)

    def _each(self, words: tf.Tensor, rare: Rare) -> list[tuple[Tail, tf.Tensor, tf.Tensor]]:
        """Each tail, the words at its places, counted from its first, and these places; see `rare_words`."""
        return [
            (tail, tf.clip_by_value(tf.gather(words, places) - first, 0, end - first - 1), places)
            for tail, places, (first, end) in zip(self.tails, rare[1:], self.bounds, strict=True)
        ]


class Layer(keras.layers.Layer):
    """A residual branch (Bradbury et al. 2017): gates from each word and the one before it, a recurrence, a mix."""

    def __init__(self, width: int, policy: keras.DTypePolicy, name: str) -> None:
        super().__init__(name=name)
        self.width, self.low = width, policy.compute_dtype
        self.mix = keras.layers.Dense(width, use_bias=False, dtype=policy, name="mix")

    def build(self, *shapes: Any) -> None:
        """Make the gates: what is new, what is kept, what is put out."""
        self.gates = self.add_weight(shape=(3, self.width, 2 * self.width), name="gates")
        self.forget = self.add_weight(shape=(self.width,), name="forget")

    def call(self, x: tf.Tensor, carry: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """float32 [T, B, W] of x [T, B, W], and the last input and state [2, B, W]; `carry` has those before."""
        inputs = normalise(x)
        before = tf.concat([carry[:1], narrow(inputs, 0, 0, x.shape[0] - 1)], 0)
        both = tf.reshape(tf.concat([before, inputs], -1), (-1, 2 * self.width))
        gates = multiply(both, tf.reshape(self.gates, (3 * self.width, -1)), self.low)
        new, forget, out = tf.split(tf.reshape(gates, (*x.shape[:2], -1)), 3, -1)
        keep = tf.sigmoid(forget + self.forget)
        states = recurrence(keep, (1 - keep) * new, carry[1])
        y = tf.cast(self.mix(states * tf.nn.silu(out)), tf.float32)
        return y, tf.stop_gradient(tf.stack([inputs[-1], states[-1]]))


class Pointer(keras.layers.Layer):
    """Which of the last L = segment_length words comes next: a pointer sentinel mixture (Merity et al. 2017)."""

    def __init__(self, hyper: Hyperparameters, policy: keras.DTypePolicy) -> None:
        super().__init__(name="pointer")
        self.window, self.low = hyper.segment_length, policy.compute_dtype
        self.query = keras.layers.Dense(hyper.width, use_bias=False, dtype=policy, name="query")
        self.sentinel = Dense(1, dtype=policy, name="sentinel")

    def call(self, x: tf.Tensor, words: tf.Tensor, carry: Carry) -> Pointed:
        """For the outputs x [T, B, W] at words [T, B], T a multiple of L: the words [T, B, 2 L] around each,
        the probability float32 [T, B, 2 L] of each of these, and that which is left to the vocabulary, [T, B].
        """
        window = self.window

        def around(sequence: tf.Tensor, before: tf.Tensor) -> tf.Tensor:
            blocks = tf.reshape(tf.concat([before, sequence], 0), (-1, window, *sequence.shape[1:]))
            pairs = [narrow(blocks, 0, first, blocks.shape[0] - 1) for first in (0, 1)]
            return tf.experimental.numpy.swapaxes(tf.concat(pairs, 1), 1, 2)

        keys, places = around(x, carry["outputs"]), around(words, carry["words"])[:, :, None]
        _, here = tf.split(keys, 2, 2)
        scores = tf.matmul(self.query(here), tf.cast(keys, self.low), transpose_b=True)
        scores = tf.cast(scores, tf.float32) / x.shape[-1]
        place, now = tf.range(2 * window), tf.range(window)[:, None]
        seen = (now < place) & (place <= now + window) & (places >= 0)
        sentinel = tf.cast(self.sentinel(here), tf.float32)
        chosen = tf.nn.softmax(tf.concat([tf.where(seen, scores, -np.inf), sentinel], -1))
        places = tf.broadcast_to(places, scores.shape)
        chosen, places = (
            tf.reshape(tf.experimental.numpy.swapaxes(a, 1, 2), (*words.shape, a.shape[-1])) for a in (chosen, places)
        )
        chosen, left = tf.split(chosen, (2 * window, 1), -1)
        return places, chosen, tf.squeeze(left, -1)


class LanguageModel(keras.Model):
    """A gated linear recurrence with an adaptive softmax and a pointer."""

    def __init__(self, hyper: Hyperparameters, words: int, policy: keras.DTypePolicy) -> None:
        super().__init__(name="model")
        self.hyper = hyper
        self.vocabulary = Vocabulary(hyper, words, policy)
        self.stack = [Layer(hyper.width, policy, f"layers.{i}") for i in range(hyper.layers)]
        self.pointer = Pointer(hyper, policy)

    def call(
        self, words: tf.Tensor, rare: Rare, carry: Carry, seed: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, Pointed, dict[str, tf.Tensor]]:
        """The output float32 [T, B, W] for words [T, B], what the pointer says, and what the next segment takes over.

        `seed` fixes what is dropped; see `dropout`.
        """
        width, window, rate = self.hyper.width, self.hyper.segment_length, self.hyper.dropout
        x = self.vocabulary(tf.reshape(words, (-1,)), rare)
        x = dropout(tf.reshape(normalise(x), (*words.shape, width)), rate, seed, 0)
        carried = []
        for i, layer in enumerate(self.stack):
            y, last = layer(x, carry["layers"][i])
            x = x + dropout(y, rate, seed, i + 1)
            carried.append(last)
        x = dropout(normalise(x), rate, seed, len(self.stack) + 1)
        after = {"layers": tf.stack(carried), "outputs": tf.stop_gradient(x[-window:]), "words": words[-window:]}
        return x, self.pointer(x, words, carry), after

    def log_probabilities(self, x: tf.Tensor, pointed: Pointed, targets: tf.Tensor, rare: Rare) -> tf.Tensor:
        """Log-probabilities float32 [T, B] of targets [T, B] after x [T, B, W], by pointer and vocabulary together."""
        places, chosen, left = pointed
        again = tf.reduce_sum(tf.where(places == targets[..., None], chosen, 0.0), -1)
        flat = tf.reshape(x, (-1, self.hyper.width))
        known = self.vocabulary.log_probabilities(flat, tf.reshape(targets, (-1,)), rare)
        return tf.math.log(left * tf.exp(tf.reshape(known, targets.shape)) + again + TINY)

    def distribution(self, x: tf.Tensor, pointed: Pointed) -> tf.Tensor:
        """The log-probabilities float32 [N, V] of all words after x [N, W], with the pointer's [N, 2 L] and [N]."""
        places, chosen, left = pointed
        known = left[:, None] * tf.exp(self.vocabulary.distribution(x))
        row = tf.broadcast_to(tf.range(places.shape[0], dtype=places.dtype)[:, None], places.shape)
        where = tf.stack([row, tf.maximum(places, 0)], -1)
        return tf.math.log(tf.tensor_scatter_nd_add(known, where, chosen) + TINY)
