"""Language modelling in TensorFlow: the twin of `torch.py`, function by function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from reference_impls.language_modeling.shared import (
    Batch,
    Batches,
    Hyperparameters,
    initial_parameters,
    is_matrix,
    predictions,
)
from suite.harness.implementation import Compute, TrainStats

DTYPES = {"fp32": tf.float32, "bf16": tf.bfloat16, "fp16": tf.float16}
LOSS_SCALE = {"fp32": 1.0, "bf16": 1.0, "fp16": 1024.0}
ACCELERATORS = 1
EPSILON = 1e-6
Parameters = dict[str, tf.Variable]
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
    carry: tf.Tensor,
    masks: tf.Tensor | None,
    hyper: Hyperparameters,
    dtype: tf.DType,
) -> tuple[tf.Tensor, tf.Tensor]:
    """The output float32 [T, B, W] for words [T, B], and what the next segment takes over.

    `carry` [layers, 2, B, W] holds each layer's last input and last state.
    """
    x = embed(p, words, hyper, dtype)
    if masks is not None:
        x = x * masks[0]
    carried = []
    for i in range(hyper.layers):
        inputs = normalise(x)
        before = tf.concat([carry[i, :1], inputs[:-1]], 0)
        new, forget, out = tf.split(multiply(tf.concat([before, inputs], -1), p[f"gates{i}"], dtype), 3, -1)
        keep = tf.sigmoid(forget + p[f"forget{i}"])
        states = recurrence(keep, (1 - keep) * new, carry[i, 1])
        y = multiply(states * tf.nn.silu(out), p[f"mix{i}"], dtype)
        x = x + (y if masks is None else y * masks[i + 1])
        carried.append(tf.stop_gradient(tf.stack([inputs[-1], states[-1]])))
    x = normalise(x)
    return x if masks is None else x * masks[-1], tf.stack(carried)


def head_logits(p: Parameters, x: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """float32 [N, first cutoff + tails] of x [N, W]: the frequent words, and the tails as classes."""
    weight = tf.concat([p["head"], p["tails"]], 0)
    return multiply(x, weight, dtype, p["bias"][: weight.shape[0]])


def tail_logits(p: Parameters, x: tf.Tensor, i: int, first: int, end: int, dtype: tf.DType) -> tf.Tensor:
    """float32 [N, end - first] of x [N, W]: the words of tail `i`."""
    tails = p["tails"].shape[0]
    narrow = multiply(x, tf.transpose(p[f"project{i}"]), dtype)
    return multiply(narrow, p[f"tail{i}"], dtype, p["bias"][first + tails : end + tails])


def log_probabilities(
    p: Parameters, x: tf.Tensor, targets: tf.Tensor, hyper: Hyperparameters, dtype: tf.DType
) -> tf.Tensor:
    """float32 [N] of targets [N] after x [N, W], by the adaptive softmax (Grave et al. 2017), which is exact."""
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


def distribution(p: Parameters, x: tf.Tensor, hyper: Hyperparameters, dtype: tf.DType) -> tf.Tensor:
    """The log-probabilities float32 [N, V] of all words after x [N, W]."""
    head = p["head"].shape[0]
    first_choice = tf.nn.log_softmax(head_logits(p, x, dtype))
    parts = [first_choice[:, :head]]
    for i, (first, end) in enumerate(hyper.tails(p["bias"].shape[0] - p["tails"].shape[0])):
        within = tf.nn.log_softmax(tail_logits(p, x, i, first, end, dtype))
        parts.append(first_choice[:, head + i, None] + within)
    return tf.concat(parts, -1)


def orthogonalise(matrix: tf.Tensor, steps: int, dtype: tf.DType) -> tf.Tensor:
    """The nearest semi-orthogonal matrix, roughly, by Newton-Schulz iteration (Jordan et al. 2024, Muon)."""
    tall = matrix.shape[0] > matrix.shape[1]
    wide = tf.transpose(matrix) if tall else matrix
    x = tf.cast(wide / (tf.norm(wide) + 1e-7), dtype)
    for _ in range(steps):
        gram = tf.matmul(x, x, transpose_b=True)
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return tf.cast(tf.transpose(x) if tall else x, tf.float32)


def update(
    p: Parameters,
    momenta: Parameters,
    squares: Parameters,
    gradients: dict[str, tf.Tensor],
    hyper: Hyperparameters,
    rate: tf.Tensor,
    step: tf.Tensor,
    dtype: tf.DType,
) -> None:
    """One step: Muon for the layers' matrices, whose gates count as a matrix each; Adam for the other parameters.

    `rate` is the factor on the learning rates and `step` counts from 1, both float32 scalars.
    """
    first, second = hyper.opt_adam_beta_1, hyper.opt_adam_beta_2
    size = hyper.adam_learning_rate * rate / (1 - first**step)
    for name, momentum in momenta.items():
        parameter, gradient = p[name], tf.convert_to_tensor(gradients[name])
        if is_matrix(name):
            momentum.assign(hyper.muon_momentum * momentum + gradient)
            direction = gradient + hyper.muon_momentum * momentum
            blocks = tf.split(direction, direction.shape[0] // hyper.width)
            steps = tf.concat([orthogonalise(block, hyper.muon_steps, dtype) for block in blocks], 0)
            parameter.assign_sub(hyper.muon_learning_rate * rate * steps)
            continue
        square = squares[name]
        momentum.assign(first * momentum + (1 - first) * gradient)
        square.assign(second * square + (1 - second) * tf.square(gradient))
        parameter.assign_sub(size * momentum / (tf.sqrt(square / (1 - second**step)) + hyper.opt_adam_epsilon))


class TensorFlowLanguageModel:
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, compute: Compute) -> None:
        self.hyper, self.data, self.seed = hyper, data, seed
        self.device = "/GPU:0" if compute.device == "gpu" else "/CPU:0"
        self.dtype, self.scale = DTYPES[compute.precision], LOSS_SCALE[compute.precision]
        self.batches: Iterator[Batch] | None = None
        self.step = 0
        initial = initial_parameters(hyper, len(data["vocabulary"]), seed)
        with tf.device(self.device):
            self.p = {name: tf.Variable(value, name=name) for name, value in initial.items()}
            self.momenta = {name: tf.Variable(tf.zeros_like(value)) for name, value in self.p.items()}
            self.squares = {n: tf.Variable(tf.zeros_like(v)) for n, v in self.p.items() if not is_matrix(n)}
            self.carry = tf.Variable(tf.zeros((hyper.layers, 2, hyper.streams, hyper.width)))
        self.graph_step = tf.function(self._graph_step)
        self.graph_evaluate = tf.function(self._graph_evaluate, reduce_retracing=True)
        self.restore({**initial, "step": np.array(0)})

    def train(self, samples: int) -> TrainStats:
        """Take whole steps until `samples` words have been seen."""
        if self.batches is None:
            self.batches = Batches(self.data["train_tokens"], self.hyper, self.seed).iterate(self.step)
        size = self.hyper.global_batch_size
        while True:
            loss = self.train_step(next(self.batches))
            if self.step * size >= samples:
                return TrainStats(self.step * size, float(loss))

    def train_step(self, batch: Batch) -> tf.Tensor:
        """One step; the mean loss over the batch, in nats per word."""
        if batch.fresh:
            self.carry.assign(tf.zeros_like(self.carry))
        rate = tf.constant(self.hyper.learning_rate(self.step), tf.float32)
        self.step += 1
        with tf.device(self.device):
            arrays = (tf.constant(a) for a in (batch.words, batch.targets, batch.masks))
            return self.graph_step(*arrays, rate, tf.constant(self.step, tf.float32))

    def _graph_step(
        self, words: tf.Tensor, targets: tf.Tensor, masks: tf.Tensor, rate: tf.Tensor, step: tf.Tensor
    ) -> tf.Tensor:
        with tf.GradientTape() as tape:
            x, carry = network(self.p, words, self.carry, masks, self.hyper, self.dtype)
            flat = tf.reshape(x, (-1, self.hyper.width))
            logs = log_probabilities(self.p, flat, tf.reshape(targets, (-1,)), self.hyper, self.dtype)
            loss = -tf.reduce_mean(logs)
            scaled = loss * self.scale
        gradients = tape.gradient(scaled, self.p, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        if self.scale != 1.0:
            gradients = {name: tf.convert_to_tensor(gradient) / self.scale for name, gradient in gradients.items()}
            gradients = {n: tf.where(tf.math.is_finite(g), g, tf.zeros_like(g)) for n, g in gradients.items()}
        self.carry.assign(carry)
        update(self.p, self.momenta, self.squares, gradients, self.hyper, rate, step, self.dtype)
        return loss

    def predict(self) -> Sequence[Any]:
        """The log-probabilities of the test text, read as one stream, and the audited distributions."""
        carry = tf.zeros((self.hyper.layers, 2, 1, self.hyper.width))

        def evaluate(words: np.ndarray, targets: np.ndarray, audited: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            nonlocal carry
            with tf.device(self.device):
                arrays = (tf.constant(a) for a in (words, targets, audited))
                of_text, rows, carry = self.graph_evaluate(*arrays, carry)
            return of_text.numpy(), rows.numpy()

        return predictions(self.data, evaluate)

    def _graph_evaluate(
        self, words: tf.Tensor, targets: tf.Tensor, audited: tf.Tensor, carry: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        x, carry = network(self.p, words[:, None], carry, None, self.hyper, self.dtype)
        of_text = log_probabilities(self.p, x[:, 0], targets, self.hyper, self.dtype)
        return of_text, distribution(self.p, tf.gather(x[:, 0], audited), self.hyper, self.dtype), carry

    def state(self) -> dict[str, np.ndarray]:
        """Parameters, both moments, what the layers carry along the text, and the step."""
        named = {
            **self.p,
            **{f"momentum/{name}": value for name, value in self.momenta.items()},
            **{f"square/{name}": value for name, value in self.squares.items()},
            "carry": self.carry,
        }
        return {**{name: value.numpy() for name, value in named.items()}, "step": np.array(self.step)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework; without moments and carry they start at zero."""
        for name, variable in self.p.items():
            variable.assign(state[name])
        for kind, variables in (("momentum", self.momenta), ("square", self.squares)):
            for name, variable in variables.items():
                variable.assign(state.get(f"{kind}/{name}", np.zeros_like(state[name])))
        self.carry.assign(state.get("carry", np.zeros(self.carry.shape, np.float32)))
        self.step = int(state["step"])
        self.batches = None


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, compute: Compute
) -> TensorFlowLanguageModel:
    """The implementation, traced and warmed up on random words; its state is that of the seed."""
    hyper = Hyperparameters.of(hyperparameters)
    made = TensorFlowLanguageModel(hyper, data, seed, compute)
    initial = made.state()
    random_words = np.random.default_rng(0).integers(0, len(data["vocabulary"]), 2 * hyper.global_batch_size)
    for _ in range(2):
        made.train_step(next(Batches(random_words, hyper, seed).iterate(0)))
    made.restore(initial)
    return made
