"""The Transformer in TensorFlow, as functions of its parameters."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from reference_impls.translation.shared import Hyperparameters
from tasks.translation import PAD

EPSILON = 1e-5
MASKED = -1e4  # added to the logits of positions that attention must not see; within fp16's range
Parameters = dict[str, tf.Tensor]
Cache = Sequence[Sequence[tf.Tensor]]  # keys and values [B, L, d] for each layer of a decoder
Memory = tuple[Cache, tf.Tensor]  # what a decoder sees of its source: of each subword, and what is padding


class Dropout:
    """Dropout, site after site, by one batch's noise uint8 [sites, ...]; None drops nothing."""

    def __init__(self, noise: tf.Tensor | None, rate: float) -> None:
        self.sites = iter(tf.unstack(noise)) if noise is not None and rate > 0 else None
        self.threshold, self.scale = round(256 * rate), 1 / (1 - round(256 * rate) / 256)

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """`x` after the next site."""
        if self.sites is None:
            return x
        return x * (tf.cast(next(self.sites) >= self.threshold, x.dtype) * tf.cast(self.scale, x.dtype))


def linear(x: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    """`x` [B, L, in] times `weight` [out, in] transposed."""
    flat = tf.matmul(tf.reshape(x, (-1, x.shape[-1])), weight, transpose_b=True)
    return tf.reshape(flat, (tf.shape(x)[0], tf.shape(x)[1], weight.shape[0]))


def embed(p: Parameters, subwords: tf.Tensor, first: tf.Tensor | int = 0) -> tf.Tensor:
    """Scaled embeddings plus position codes [B, L, d] of subwords [B, L], the first of them at position `first`.

    In fp32 up to here: the gradients of one subword's many uses add up in it.
    """
    width = p["embedding"].shape[1]
    codes = p["positions"][first : first + tf.shape(subwords)[1]]
    return tf.cast(tf.gather(p["embedding"], subwords) * width**0.5 + codes, p["output"].dtype)


def norm(x: tf.Tensor, gain: tf.Tensor) -> tf.Tensor:
    """Layer normalisation without a bias, in fp32."""
    precise = tf.cast(x, tf.float32)
    mean, variance = tf.nn.moments(precise, [-1], keepdims=True)
    return tf.cast((precise - mean) * tf.math.rsqrt(variance + EPSILON), x.dtype) * gain


def project(x: tf.Tensor, weights: tf.Tensor) -> Sequence[tf.Tensor]:
    """`x` [B, L, d] projected by each of `weights` [n, d, d]: n times [B, L, d]."""
    return list(tf.split(linear(x, tf.reshape(weights, (-1, weights.shape[-1]))), weights.shape[0], -1))


def attend(q: tf.Tensor, kv: Sequence[tf.Tensor], mask: tf.Tensor, heads: int) -> tf.Tensor:
    """Attention [B, T, d] of queries [B, T, d] to keys and values [B, S, d].

    `mask`, added to the logits, is [B, 1, 1, S] or [T, S].
    """
    shape, width = tf.shape(q), q.shape[-1]
    split = (tf.reshape(x, (shape[0], -1, heads, width // heads)) for x in (q, *kv))
    q, k, v = (tf.transpose(x, (0, 2, 1, 3)) for x in split)
    logits = tf.matmul(q * tf.cast((width // heads) ** -0.5, q.dtype), k, transpose_b=True) + mask
    return tf.reshape(tf.transpose(tf.matmul(tf.nn.softmax(logits), v), (0, 2, 1, 3)), (shape[0], shape[1], width))


def feed(p: Parameters, name: str, x: tf.Tensor) -> tf.Tensor:
    """The feed-forward sublayer."""
    hidden = tf.nn.relu(linear(norm(x, p[f"{name}_gain"]), p[f"{name}_in"]))
    return linear(hidden, p[f"{name}_out"])


def encode(p: Parameters, source: tf.Tensor, hyper: Hyperparameters, drop: Dropout) -> Memory:
    """Of subwords [B, S]: keys and values [B, S, d] for each layer of the decoder, and their mask [B, 1, 1, S]."""
    x = drop(embed(p, source))
    mask = tf.cast(source == PAD, x.dtype)[:, None, None] * MASKED
    for i in range(hyper.encoder_layers):
        q, *kv = project(norm(x, p[f"encoder{i}_self_gain"]), p[f"encoder{i}_self_qkv"])
        x += drop(linear(attend(q, kv, mask, hyper.heads), p[f"encoder{i}_self_out"]))
        x += drop(feed(p, f"encoder{i}_feed", x))
    x = norm(x, p["encoder_gain"])
    return [project(x, p[f"decoder{i}_cross_kv"]) for i in range(hyper.decoder_layers)], mask


def decode(
    p: Parameters,
    inputs: tf.Tensor,
    memory: Memory,
    hyper: Hyperparameters,
    drop: Dropout,
    past: Cache = (),
) -> tuple[tf.Tensor, Cache]:
    """Logits [R, T, V] of the subword after each of `inputs` [R, T]; and each layer's keys and values so far.

    `memory` is of B sentences, whose R / B rows are neighbours; `past` has the keys and values [R, t, d] of what came
    before `inputs`.
    """
    crossed, mask = memory
    first, length = tf.shape(past[0][0])[1] if past else 0, tf.shape(inputs)[1]
    seen = tf.linalg.band_part(tf.ones((length, first + length), mask.dtype), -1, first)
    future = (1 - seen) * MASKED
    x = drop(embed(p, inputs, first))
    present: list[Sequence[tf.Tensor]] = []
    for i in range(hyper.decoder_layers):
        q, *kv = project(norm(x, p[f"decoder{i}_self_gain"]), p[f"decoder{i}_self_qkv"])
        present.append([tf.concat(pair, 1) for pair in zip(past[i], kv, strict=True)] if past else kv)
        x += drop(linear(attend(q, present[i], future, hyper.heads), p[f"decoder{i}_self_out"]))
        q = linear(norm(x, p[f"decoder{i}_cross_gain"]), p[f"decoder{i}_cross_q"])
        together = tf.reshape(q, (tf.shape(mask)[0], -1, hyper.d_model))
        attended = tf.reshape(attend(together, crossed[i], mask, hyper.heads), tf.shape(x))
        x += drop(linear(attended, p[f"decoder{i}_cross_out"]))
        x += drop(feed(p, f"decoder{i}_feed", x))
    return linear(norm(x, p["decoder_gain"]), p["output"]), present
