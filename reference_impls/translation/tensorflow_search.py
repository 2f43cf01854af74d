"""Beam search in TensorFlow, all of it on the device; the twin of `torch_search.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from reference_impls.translation.shared import Network
from reference_impls.translation.tensorflow_network import KeysValues, Memory, Transformer
from tasks.translation.subwords import BEGIN, END


class Beams(NamedTuple):
    """The state of the search for translations of B sentences: K hypotheses of each, of at most L subwords."""

    position: tf.Tensor  # int32, of the last subwords
    last: tf.Tensor  # int32 [B, K], the last subwords
    live: tf.Tensor  # float32 [B, K], log probabilities, best first
    history: tf.Tensor  # int32 [B, K, L], the subwords after BEGIN
    best: tf.Tensor  # float32 [B], the score of the best finished hypothesis
    found: tf.Tensor  # int32 [B, L], its subwords
    length: tf.Tensor  # int32 [B], without END
    done: tf.Tensor  # bool [B]
    cache: Sequence[KeysValues]  # [B * K, heads, C, d / heads], of each layer


def signature(hyper: Network, dtype: tf.DType) -> tuple[Memory, Beams]:
    """The signature of memory and beams of any number of sentences, of any length, whose cache grows."""

    def spec(*shape: int | None, dtype: tf.DType = tf.int32) -> tf.TensorSpec:
        return tf.TensorSpec(shape, dtype)

    beam, heads = hyper.beam_size, hyper.heads
    pairs = ((spec(None, heads, None, hyper.d_model // heads, dtype=dtype),) * 2,) * hyper.decoder_layers
    return (pairs, spec(None, 1, 1, None, dtype=dtype)), Beams(
        position=spec(),
        last=spec(None, beam),
        live=spec(None, beam, dtype=tf.float32),
        history=spec(None, beam, None),
        best=spec(None, dtype=tf.float32),
        found=spec(None, None),
        length=spec(None),
        done=spec(None, dtype=tf.bool),
        cache=pairs,
    )


def begin(memory: Memory, beam: int, longest: int, cached: int) -> Beams:
    """Beams before the first subword of translations of at most `longest`, with `cached` positions, 0 if they grow."""
    source, _ = memory
    shape = tf.shape(source[0][0])
    batch, heads, width = shape[0], shape[1], shape[3]
    empty = tf.zeros((batch * beam, heads, cached, width), source[0][0].dtype)
    return Beams(
        position=tf.constant(0),
        last=tf.fill((batch, beam), BEGIN),
        live=tf.where(tf.range(beam) == 0, 0.0, -1e9) + tf.zeros((batch, 1)),  # at first hypotheses are alike
        history=tf.zeros((batch, beam, longest), tf.int32),
        best=tf.fill((batch,), float("-inf")),
        found=tf.zeros((batch, longest), tf.int32),
        length=tf.fill((batch,), longest),
        done=tf.fill((batch,), False),
        cache=((empty, empty),) * len(source),
    )


def only(beams: Beams, memory: Memory, sentences: tf.Tensor) -> tuple[Beams, Memory]:
    """The beams and memory of these sentences alone, int32 [b]."""
    beam = beams.last.shape[1]
    rows = tf.reshape(sentences[:, None] * beam + tf.range(beam), (-1,))
    kept = {
        name: tf.gather(value, sentences)
        for name, value in beams._asdict().items()
        if name not in ("position", "cache")
    }
    cache = tf.nest.map_structure(lambda x: tf.gather(x, rows), beams.cache)
    return Beams(position=beams.position, cache=cache, **kept), tf.nest.map_structure(
        lambda x: tf.gather(x, sentences), memory
    )


def results(beams: Beams) -> tuple[tf.Tensor, tf.Tensor]:
    """The best translations, int32 [B, L], and how long they are; if none has ended, the likeliest hypothesis."""
    ended = beams.best > float("-inf")
    return tf.where(ended[:, None], beams.found, beams.history[:, 0]), beams.length


def step(model: Transformer, memory: Memory, beams: Beams, hyper: Network) -> Beams:
    """Lengthen each hypothesis by one subword.

    A hypothesis is scored by log probability / length ** `length_penalty`, END counted. A sentence is done when the
    best finished hypothesis scores no less than its live ones do.
    """
    beam, batch = hyper.beam_size, tf.shape(beams.live)[0]
    logits, cache = model.following(tf.reshape(beams.last, (-1,)), memory, beams.cache, beams.position)
    scores, subwords = tf.math.top_k(logits, beam + 1)
    scores = tf.reshape(scores - tf.reduce_logsumexp(logits, 1, keepdims=True), (-1, beam, beam + 1))
    totals = tf.reshape(beams.live[:, :, None] + scores, (-1, beam * (beam + 1)))
    subwords = tf.reshape(subwords, (-1, beam * (beam + 1)))
    ends, never = subwords == END, tf.constant(float("-inf"))
    penalty = tf.cast(beams.position + 1, tf.float32) ** hyper.length_penalty

    ended = tf.where(ends, totals, never)
    finished = tf.reduce_max(ended, 1) / penalty
    better = ~beams.done & (finished > beams.best)
    candidate = tf.argmax(ended, 1, tf.int32) // (beam + 1)
    best = tf.where(better, finished, beams.best)

    live, chosen = tf.math.top_k(tf.where(ends, never, totals), beam)
    last = tf.gather(subwords, chosen, batch_dims=1)
    parents = chosen // (beam + 1)
    if beam > 1:
        rows = tf.reshape(parents + tf.range(batch)[:, None] * beam, (-1,))
        cache = tf.nest.map_structure(lambda x: tf.gather(x, rows), cache)
    here = tf.range(beams.history.shape[2] or tf.shape(beams.history)[2]) == beams.position
    return Beams(
        position=beams.position + 1,
        last=last,
        live=live,
        history=tf.where(here, last[:, :, None], tf.gather(beams.history, parents, batch_dims=1)),
        best=best,
        found=tf.where(better[:, None], tf.gather(beams.history, candidate, batch_dims=1), beams.found),
        length=tf.where(better, beams.position, beams.length),
        done=beams.done | (best >= live[:, 0] / penalty),
        cache=cache,
    )


def advance(model: Transformer, memory: Memory, beams: Beams, hyper: Network, count: int) -> Beams:
    """Lengthen each hypothesis by `count` subwords."""

    def body(before: Beams) -> tuple[Beams]:
        after = step(model, memory, before, hyper)
        for new, old in zip(tf.nest.flatten(after), tf.nest.flatten(before), strict=True):
            new.set_shape(old.shape)
        return (after,)

    shapes = tf.nest.map_structure(lambda x: x.shape, beams)  # a cache may grow
    after: Beams
    (after,) = tf.while_loop(lambda before: True, body, (beams,), shape_invariants=(shapes,), maximum_iterations=count)
    return after
