"""Language modelling in TensorFlow: the twin of `torch_network.py`, function by function."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from reference_impls.language_modeling.shared import Hyperparameters

EPSILON = 1e-6
TINY = 1e-30  # keeps the logarithm of a probability finite
Parameters = dict[str, tf.Variable]
Carry = Mapping[str, tf.Tensor]
Pointed = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # see `pointer`
Backward = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor, None]]


def normalise(x: tf.Tensor) -> tf.Tensor:
    """Root mean square 1 along the last axis."""
    return x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + EPSILON)


def multiply(x: tf.Tensor, weight: tf.Tensor, dtype: tf.DType, bias: tf.Tensor | None = None) -> tf.Tensor:
    """x [..., in] times weight [out, in], plus bias [out], in the training precision; float32 [..., out]."""
    flat = tf.cast(tf.reshape(x, (-1, x.shape[-1])), dtype)
    product = tf.matmul(flat, tf.cast(weight, dtype), transpose_b=True)
    if bias is not None:
        product = tf.nn.bias_add(product, tf.cast(bias, dtype))
    return tf.reshape(tf.cast(product, tf.float32), tf.concat([tf.shape(x)[:-1], tf.shape(weight)[:1]], 0))


def scan(keep: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
    """h[t] = keep[t] h[t-1] + new[t] along the first axis, from h[-1] = 0, in log2(T) doublings (Blelloch 1990)."""
    reach = 1
    while reach < new.shape[0]:
        new = tf.concat([new[:reach], new[reach:] + keep[reach:] * new[:-reach]], 0)
        keep = tf.concat([keep[:reach], keep[reach:] * keep[:-reach]], 0)
        reach *= 2
    return new


def recurrence_and_gradient(keep: tf.Tensor, new: tf.Tensor, last: tf.Tensor) -> tuple[tf.Tensor, Backward]:
    """The states h [T, B, W] of h[t] = keep[t] h[t-1] + new[t], from h[-1] = `last`; its gradient is another one."""
    states = scan(keep, tf.concat([new[:1] + keep[:1] * last, new[1:]], 0))

    def backward(gradient: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, None]:
        later = tf.concat([keep[1:], tf.zeros_like(keep[:1])], 0)
        to_new = tf.reverse(scan(tf.reverse(later, [0]), tf.reverse(gradient, [0])), [0])
        return to_new * tf.concat([last[None], states[:-1]], 0), to_new, None

    return states, backward


recurrence = tf.custom_gradient(recurrence_and_gradient)


def embed(p: Parameters, words: tf.Tensor, hyper: Hyperparameters, dtype: tf.DType) -> tf.Tensor:
    """float32 [T, B, W] of words [T, B]: rare words have narrow embeddings (Baevski and Auli 2019)."""
    x = tf.gather(p["head"], tf.minimum(words, p["head"].shape[0] - 1))
    for i, (first, end) in enumerate(hyper.tails(p["bias"].shape[0] - p["tails"].shape[0])):
        where = tf.where((words >= first) & (words < end))
        rare = multiply(tf.gather(p[f"tail{i}"], tf.gather_nd(words, where) - first), p[f"project{i}"], dtype)
        x = tf.tensor_scatter_nd_update(x, where, rare)
    return normalise(x)


def network(
    p: Parameters,
    words: tf.Tensor,
    carry: Carry,
    masks: tf.Tensor | None,
    hyper: Hyperparameters,
    dtype: tf.DType,
) -> tuple[tf.Tensor, Carry]:
    """The output float32 [T, B, W] for words [T, B], and what the next segment takes over (see `initial_carry`)."""
    x = embed(p, words, hyper, dtype)
    if masks is not None:
        x = x * masks[0]
    carried = []
    for i in range(hyper.layers):
        inputs = normalise(x)
        before = tf.concat([carry["layers"][i, :1], inputs[:-1]], 0)
        new, forget, out = tf.split(multiply(tf.concat([before, inputs], -1), p[f"gates{i}"], dtype), 3, -1)
        keep = tf.sigmoid(forget + p[f"forget{i}"])
        states = recurrence(keep, (1 - keep) * new, carry["layers"][i, 1])
        y = multiply(states * tf.nn.silu(out), p[f"mix{i}"], dtype)
        x = x + (y if masks is None else y * masks[i + 1])
        carried.append(tf.stop_gradient(tf.stack([inputs[-1], states[-1]])))
    x = normalise(x)
    if masks is not None:
        x = x * masks[-1]
    last = slice(-hyper.segment_length, None)
    return x, {"layers": tf.stack(carried), "outputs": tf.stop_gradient(x[last]), "words": words[last]}


def head_logits(p: Parameters, x: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """float32 [N, first cutoff + tails] of x [N, W]: the frequent words, and the tails as classes."""
    weight = tf.concat([p["head"], p["tails"]], 0)
    return multiply(x, weight, dtype, p["bias"][: weight.shape[0]])


def tail_logits(p: Parameters, x: tf.Tensor, i: int, first: int, end: int, dtype: tf.DType) -> tf.Tensor:
    """float32 [N, end - first] of x [N, W]: the words of tail `i`."""
    tails = p["tails"].shape[0]
    narrow = multiply(x, tf.transpose(p[f"project{i}"]), dtype)
    return multiply(narrow, p[f"tail{i}"], dtype, p["bias"][first + tails : end + tails])


def of_vocabulary(
    p: Parameters, x: tf.Tensor, targets: tf.Tensor, hyper: Hyperparameters, dtype: tf.DType
) -> tf.Tensor:
    """Log-probabilities float32 [N] of targets [N] after x [N, W], by the adaptive softmax (Grave et al. 2017)."""
    head = p["head"].shape[0]
    tails = hyper.tails(p["bias"].shape[0] - p["tails"].shape[0])
    classes = tf.minimum(targets, head - 1)
    for i, (first, _) in enumerate(tails):
        classes = tf.where(targets >= first, tf.cast(head + i, classes.dtype), classes)
    result = -tf.nn.sparse_softmax_cross_entropy_with_logits(classes, head_logits(p, x, dtype))
    for i, (first, end) in enumerate(tails):
        where = tf.where(classes == head + i)
        logits = tail_logits(p, tf.gather(x, where[:, 0]), i, first, end, dtype)
        within = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.gather(targets, where[:, 0]) - first, logits)
        result = tf.tensor_scatter_nd_sub(result, where, within)
    return result


def whole_vocabulary(p: Parameters, x: tf.Tensor, hyper: Hyperparameters, dtype: tf.DType) -> tf.Tensor:
    """The log-probabilities float32 [N, V] of all words after x [N, W]."""
    head = p["head"].shape[0]
    first_choice = tf.nn.log_softmax(head_logits(p, x, dtype))
    parts = [first_choice[:, :head]]
    for i, (first, end) in enumerate(hyper.tails(p["bias"].shape[0] - p["tails"].shape[0])):
        within = tf.nn.log_softmax(tail_logits(p, x, i, first, end, dtype))
        parts.append(first_choice[:, head + i, None] + within)
    return tf.concat(parts, -1)


def pointer(
    p: Parameters, x: tf.Tensor, words: tf.Tensor, carry: Carry, hyper: Hyperparameters, dtype: tf.DType
) -> Pointed:
    """Which of the last L = segment_length words comes next (pointer sentinel mixture, Merity et al. 2017).

    For the outputs x [T, B, W] at words [T, B], T a multiple of L: the words [T, B, 2 L] around each, the probability
    float32 [T, B, 2 L] of each of these, and that which is left to the vocabulary, float32 [T, B].
    """
    window = hyper.segment_length

    def around(sequence: tf.Tensor, before: tf.Tensor) -> tf.Tensor:
        blocks = tf.reshape(tf.concat([before, sequence], 0), (-1, window, *sequence.shape[1:]))
        return tf.experimental.numpy.swapaxes(tf.concat([blocks[:-1], blocks[1:]], 1), 1, 2)

    keys, places = around(x, carry["outputs"]), around(words, carry["words"])[:, :, None]
    here = keys[:, :, window:]
    query = tf.cast(multiply(here, p["query"], dtype), dtype)
    scores = tf.cast(tf.matmul(query, tf.cast(keys, dtype), transpose_b=True), tf.float32) / hyper.width
    place, now = tf.range(2 * window), tf.range(window)[:, None]
    seen = (now < place) & (place <= now + window) & (places >= 0)
    sentinel = multiply(here, p["sentinel"], dtype, p["sentinel_bias"])
    chosen = tf.nn.softmax(tf.concat([tf.where(seen, scores, -np.inf), sentinel], -1))
    places = tf.broadcast_to(places, scores.shape)
    chosen, places = (
        tf.reshape(tf.experimental.numpy.swapaxes(a, 1, 2), (*words.shape, a.shape[-1])) for a in (chosen, places)
    )
    return places, chosen[..., :-1], chosen[..., -1]


def log_probabilities(
    p: Parameters, x: tf.Tensor, targets: tf.Tensor, pointed: Pointed, hyper: Hyperparameters, dtype: tf.DType
) -> tf.Tensor:
    """float32 [T, B] of targets [T, B] after x [T, B, W]: the pointer's share and the vocabulary's."""
    places, chosen, left = pointed
    again = tf.reduce_sum(tf.where(places == targets[..., None], chosen, 0.0), -1)
    flat = of_vocabulary(p, tf.reshape(x, (-1, hyper.width)), tf.reshape(targets, (-1,)), hyper, dtype)
    return tf.math.log(left * tf.exp(tf.reshape(flat, targets.shape)) + again + TINY)


def distribution(p: Parameters, x: tf.Tensor, pointed: Pointed, hyper: Hyperparameters, dtype: tf.DType) -> tf.Tensor:
    """The log-probabilities float32 [N, V] of all words after x [N, W], with the pointer's [N, 2 L] and [N]."""
    places, chosen, left = pointed
    known = left[:, None] * tf.exp(whole_vocabulary(p, x, hyper, dtype))
    row = tf.broadcast_to(tf.range(tf.shape(places)[0], dtype=places.dtype)[:, None], tf.shape(places))
    where = tf.stack([row, tf.maximum(places, 0)], -1)
    return tf.math.log(tf.tensor_scatter_nd_add(known, where, chosen) + TINY)
