"""The Transformer in TensorFlow, the twin of `torch_network.py`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import keras
import tensorflow as tf

from reference_impls import tensorflow_shared
from reference_impls.translation.shared import MASKED, POSITIONS, Network, positions
from tasks.translation.subwords import PAD

WITHIN_ATTENTION, WITHIN_FEED_FORWARD = 1000, 2000  # added to the sites of the dropout after these sublayers
KeysValues = tuple[tf.Tensor, tf.Tensor]  # each [B, heads, L, d / heads]
Memory = tuple[Sequence[KeysValues], tf.Tensor]  # of each decoder layer, and what is padding: [B, 1, 1, S]


def added(cache: KeysValues, new: KeysValues, position: tf.Tensor) -> KeysValues:
    """Keys and values with `new`: a cache of fixed length is filled at `position`, one of unknown length grows."""
    if cache[0].shape[2] is None:
        return tuple(tf.concat(pair, 2) for pair in zip(cache, new, strict=True))
    here = (tf.range(cache[0].shape[2]) == position)[:, None]
    return tuple(tf.where(here, one, whole) for whole, one in zip(cache, new, strict=True))


def cross_entropy(logits: tf.Tensor, subwords: tf.Tensor, label_smoothing: float) -> tf.Tensor:
    """Cross entropy float32 [N] of logits [N, V] and subwords [N]; zero where these are padding."""
    count = logits.shape[-1]
    wanted = tf.one_hot(subwords, count, 1 - label_smoothing + label_smoothing / count, label_smoothing / count)
    losses = tf.nn.softmax_cross_entropy_with_logits(wanted, tf.cast(logits, tf.float32))
    return losses * tf.cast(subwords != PAD, tf.float32)


class Dropout(keras.layers.Layer):
    """Dropout as a function of a seed int32 [2] and of the site in the network; it compares random bytes."""

    def __init__(self, rate: float, site: int, dtype: keras.DTypePolicy) -> None:
        super().__init__(dtype=dtype)
        self.dropped, self.site = min(round(256 * rate), 255), site

    def call(self, x: tf.Tensor, seed: tf.Tensor | None) -> tf.Tensor:
        """`x` [..., d], d a multiple of 4; without a seed nothing is dropped."""
        if seed is None or self.dropped == 0:
            return x
        seed = tf.random.experimental.stateless_fold_in(seed, self.site)
        words = tf.random.stateless_uniform((tf.size(x) // 4,), seed, None, None, tf.int32)
        noise = tf.reshape(tf.bitcast(words, tf.uint8), tf.shape(x))
        kept = tf.cast(x * tf.cast(noise >= self.dropped, x.dtype), tf.float32)
        return tf.cast(kept * (256 / (256 - self.dropped)), x.dtype)  # in bf16 the factor itself would be rounded


class Attention(keras.layers.Layer):
    """Multi-head attention without biases."""

    def __init__(self, hyper: Network, name: str, site: int, dtype: keras.DTypePolicy) -> None:
        """`site` is that of the dropout of its weights."""
        super().__init__(name=name, dtype=dtype)
        self.heads = hyper.heads
        self.drop = Dropout(hyper.dropout if hyper.published else 0.0, site, dtype)
        dense = partial(keras.layers.Dense, hyper.d_model, use_bias=False, dtype=dtype)
        self.q, self.k, self.v, self.out = (dense(name=name) for name in ("q", "k", "v", "out"))

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Make the weights."""
        for layer in (self.q, self.k, self.v, self.out):
            layer.build(shape)

    def split(self, x: tf.Tensor) -> tf.Tensor:
        """[B, heads, L, d / heads] of [B, L, d]."""
        shape = tf.shape(x)
        return tf.transpose(tf.reshape(x, (shape[0], shape[1], self.heads, x.shape[2] // self.heads)), (0, 2, 1, 3))

    def keys_values(self, x: tf.Tensor) -> KeysValues:
        """The keys and values of `x`, which is attended to."""
        return self.split(self.k(x)), self.split(self.v(x))

    def call(self, x: tf.Tensor, keys_values: KeysValues, mask: tf.Tensor, seed: tf.Tensor | None) -> tf.Tensor:
        """The attention of `x` [B, T, d] to these; `mask` is added to the logits [B, heads, T, S]."""
        q, (k, v) = self.split(self.q(x)), keys_values
        logits = tf.matmul(q * tf.cast(q.shape[3] ** -0.5, q.dtype), k, transpose_b=True) + mask
        found = tf.transpose(tf.matmul(self.drop(tf.nn.softmax(logits), seed), v), (0, 2, 1, 3))
        return self.out(tf.reshape(found, tf.shape(x)))


class Layer(keras.layers.Layer):
    """What an encoder's and a decoder's layer share: attention and a feed-forward network between norms."""

    def __init__(
        self, hyper: Network, name: str, attentions: Sequence[str], site: int, dtype: keras.DTypePolicy
    ) -> None:
        """`site` is the number of the first place of dropout."""
        super().__init__(name=name, dtype=dtype)
        for i, attention in enumerate(attentions):
            setattr(self, attention, Attention(hyper, attention, WITHIN_ATTENTION + site + i, dtype))
        dense = tensorflow_shared.Dense if hyper.published else partial(keras.layers.Dense, use_bias=False)
        self.linear1 = dense(hyper.d_ff, name="linear1", dtype=dtype)
        self.linear2 = dense(hyper.d_model, name="linear2", dtype=dtype)
        self.inner = Dropout(hyper.dropout if hyper.published else 0.0, WITHIN_FEED_FORWARD + site, dtype)
        self.attentions = [getattr(self, attention) for attention in attentions]
        self.norms = [norm(hyper, f"norm{i}", dtype) for i in range(1, len(attentions) + 2)]
        self.drops = [Dropout(hyper.dropout, site + i, dtype) for i in range(len(self.norms))]

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Make the weights."""
        for layer in (*self.attentions, self.linear1, *self.norms):
            layer.build(shape)
        self.linear2.build((*shape[:-1], self.linear1.units))

    def feed(self, x: tf.Tensor, seed: tf.Tensor | None) -> tf.Tensor:
        """The output of the feed-forward sublayer, which is the last."""
        inner = self.inner(tf.nn.relu(self.linear1(self.norms[-1](x))), seed)
        return x + self.drops[-1](self.linear2(inner), seed)


class EncoderLayer(Layer):
    """Self-attention and a feed-forward network; each normalises its input and is added to it."""

    def call(self, x: tf.Tensor, mask: tf.Tensor, seed: tf.Tensor | None) -> tf.Tensor:
        """The output for `x` [B, S, d]."""
        y = self.norms[0](x)
        x += self.drops[0](self.self_attn(y, self.self_attn.keys_values(y), mask, seed), seed)
        return self.feed(x, seed)


class DecoderLayer(Layer):
    """An encoder's layer with attention to the source in between."""

    def call(
        self,
        x: tf.Tensor,
        future: tf.Tensor,
        source: KeysValues,
        padding: tf.Tensor,
        seed: tf.Tensor | None,
        past: KeysValues | None = None,
        position: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, KeysValues]:
        """The output for `x` [R, T, d], and keys and values so far; `source` is of B sentences of R / B rows each."""
        y = self.norms[0](x)
        present = self.self_attn.keys_values(y)
        if past is not None:
            present = added(past, present, position)
        x += self.drops[0](self.self_attn(y, present, future, seed), seed)
        together = tf.reshape(self.norms[1](x), (tf.shape(padding)[0], -1, x.shape[2]))
        x += self.drops[1](tf.reshape(self.cross_attn(together, source, padding, seed), tf.shape(x)), seed)
        return self.feed(x, seed), present


def norm(hyper: Network, name: str, dtype: keras.DTypePolicy) -> keras.layers.Layer:
    """Layer normalisation."""
    return keras.layers.LayerNormalization(epsilon=1e-5, center=hyper.published, name=name, dtype=dtype)


class Transformer(keras.Model):
    """Encoder, decoder, and embeddings that are the output layer too."""

    def __init__(self, hyper: Network, subwords: int, dtype: keras.DTypePolicy) -> None:
        super().__init__(name="transformer", dtype=dtype)
        self.width = hyper.d_model
        self.embedding = keras.layers.Embedding(subwords, hyper.d_model, name="embedding", dtype="float32")
        self.positions = tf.constant(positions(POSITIONS, hyper.d_model))
        self.encoder = [
            EncoderLayer(hyper, f"encoder.{i}", ("self_attn",), 2 + 2 * i, dtype) for i in range(hyper.encoder_layers)
        ]
        first = 2 + 2 * hyper.encoder_layers
        self.decoder = [
            DecoderLayer(hyper, f"decoder.{i}", ("self_attn", "cross_attn"), first + 3 * i, dtype)
            for i in range(hyper.decoder_layers)
        ]
        self.encoder_norm, self.decoder_norm = (norm(hyper, f"{stack}_norm", dtype) for stack in ("encoder", "decoder"))
        self.drops = [Dropout(hyper.dropout, site, dtype) for site in range(2)]

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Make the weights; `shape` is that of subwords."""
        self.embedding.build(shape)
        for layer in (*self.encoder, self.encoder_norm, *self.decoder, self.decoder_norm):
            layer.build((*shape, self.width))

    def embed(self, subwords: tf.Tensor, codes: tf.Tensor) -> tf.Tensor:
        """Scaled embeddings of subwords [B, L] plus codes of their positions [L, d].

        It is computed in fp32, in which the gradients of one subword's many uses add up.
        """
        return tf.cast(self.embedding(subwords) * self.width**0.5 + codes, self.compute_dtype)

    def encode(self, source: tf.Tensor, seed: tf.Tensor | None) -> Memory:
        """What the decoder sees of subwords [B, S]."""
        x = self.drops[0](self.embed(source, self.positions[: tf.shape(source)[1]]), seed)
        padding = tf.cast(source == PAD, x.dtype)[:, None, None] * MASKED
        for layer in self.encoder:
            x = layer(x, padding, seed)
        x = self.encoder_norm(x)
        return tuple(layer.cross_attn.keys_values(x) for layer in self.decoder), padding

    def logits(self, x: tf.Tensor) -> tf.Tensor:
        """Logits [R * T, V] of the following subwords, from the output [R, T, d] of the decoder's last layer."""
        rows = tf.reshape(self.decoder_norm(x), (-1, self.width))
        return tf.matmul(rows, tf.cast(self.embedding.embeddings, rows.dtype), transpose_b=True)

    def call(self, source: tf.Tensor, inputs: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Logits [B * T, V] of the subword after each of `inputs` [B, T], of the translations of `source` [B, S]."""
        memory, padding = self.encode(source, seed)
        length = tf.shape(inputs)[1]
        x = self.drops[1](self.embed(inputs, self.positions[:length]), seed)
        future = (1 - tf.linalg.band_part(tf.ones((length, length), x.dtype), -1, 0)) * MASKED
        for layer, keys_values in zip(self.decoder, memory, strict=True):
            x, _ = layer(x, future, keys_values, padding, seed)
        return self.logits(x)

    def following(
        self, subwords: tf.Tensor, memory: Memory, cache: Sequence[KeysValues], position: tf.Tensor
    ) -> tuple[tf.Tensor, Sequence[KeysValues]]:
        """Logits float32 [R, V] after subwords [R] at `position`, and the cache with these."""
        source, padding = memory
        x = self.embed(subwords[:, None], tf.gather(self.positions, position)[None])
        length = cache[0][0].shape[2]
        future = tf.zeros((1,), x.dtype)
        if length is not None:
            future = tf.cast(tf.range(length) > position, x.dtype) * MASKED
        present = []
        for layer, past, keys_values in zip(self.decoder, cache, source, strict=True):
            x, kept = layer(x, future, keys_values, padding, None, past, position)
            present.append(kept)
        return tf.cast(self.logits(x), tf.float32), tuple(present)
