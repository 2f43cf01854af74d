"""Translation in TensorFlow: optimizer, implementation. The network is in `tensorflow_network.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from reference_impls.kept import Kept
from reference_impls.memory import keep_freed_memory
from reference_impls.precision import loss_scale
from reference_impls.tensorflow_shared import DTYPES, device_name, unscaled
from reference_impls.translation.search import Step, questions, translate
from reference_impls.translation.shared import (
    FP16_LOSS_SCALE,
    POSITIONS,
    Batch,
    Batches,
    Hyperparameters,
    initial_parameters,
    is_matrix,
    make_batch,
    positions,
    vocabulary,
)
from reference_impls.translation.tensorflow_network import Cache, Dropout, Memory, Parameters, decode, encode
from suite.harness.implementation import Device, TrainStats
from tasks.translation import PAD

ACCELERATORS = 1


def orthogonalise(matrices: Parameters, steps: int, dtype: tf.DType) -> Parameters:
    """The nearest semi-orthogonal matrices, roughly, by Newton-Schulz iteration (Jordan et al. 2024, Muon).

    Each is [..., out, in]; those of like shape, or like when transposed, are iterated together.
    """
    wide = {name: tf.reshape(m, (-1, *m.shape[-2:])) for name, m in matrices.items()}
    wide = {n: tf.linalg.matrix_transpose(m) if m.shape[1] > m.shape[2] else m for n, m in wide.items()}
    result: Parameters = {}
    for shape in {tuple(m.shape[1:]): None for m in wide.values()}:
        names = [name for name, m in wide.items() if tuple(m.shape[1:]) == shape]
        x = tf.concat([wide[name] for name in names], 0)
        x = tf.cast(x / (tf.norm(x, axis=(1, 2), keepdims=True) + 1e-7), dtype)
        for _ in range(steps):
            gram = tf.matmul(x, x, transpose_b=True)
            x = 3.4445 * x + tf.matmul(-4.7750 * gram + 2.0315 * tf.matmul(gram, gram), x)
        for name, part in zip(
            names, tf.split(tf.cast(x, tf.float32), [len(wide[name]) for name in names]), strict=True
        ):
            tall = matrices[name].shape[-2] > matrices[name].shape[-1]
            result[name] = tf.reshape(tf.linalg.matrix_transpose(part) if tall else part, matrices[name].shape)
    return result


def update(
    p: Parameters,
    moments: Parameters,
    gradients: Parameters,
    hyper: Hyperparameters,
    step: tf.Tensor,
    factor: tf.Tensor,
    dtype: tf.DType,
) -> None:
    """One step of Muon with Nesterov momentum and decoupled decay for matrices, of Adam for embeddings and gains."""
    directions: Parameters = {}
    for name, parameter in p.items():
        gradient, first = gradients[name], moments[f"first/{name}"]
        if is_matrix(name):
            first.assign_add((1 - hyper.muon_momentum) * (gradient - first))
            directions[name] = gradient + hyper.muon_momentum * (first - gradient)
            continue
        second = moments[f"second/{name}"]
        first.assign_add((1 - hyper.opt_adam_beta_1) * (gradient - first))
        second.assign_add((1 - hyper.opt_adam_beta_2) * (tf.square(gradient) - second))
        corrected = tf.sqrt(second / (1 - hyper.opt_adam_beta_2 ** (step + 1))) + 1e-9
        rate = hyper.opt_base_learning_rate * factor / (1 - hyper.opt_adam_beta_1 ** (step + 1))
        parameter.assign_sub(rate * first / corrected)
    rate = hyper.muon_learning_rate * factor
    for name, direction in orthogonalise(directions, hyper.muon_steps, dtype).items():
        rows, columns = direction.shape[-2:]
        decayed = p[name] * (1 - rate * hyper.opt_weight_decay)
        p[name].assign(decayed - rate * max(1, rows / columns) ** 0.5 * direction)


class TensorFlowTranslator:
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        self.hyper, self.data, self.seed = hyper, data, seed
        self.device = device_name(device)
        self.dtype, self.scale = DTYPES[device.precision], loss_scale(device.precision, FP16_LOSS_SCALE)
        self.batches: Iterator[Batch] | None = None
        self.questions = Kept(self.made_questions)
        self.steps_per_epoch = 0
        initial = initial_parameters(hyper, vocabulary(data), seed)
        with tf.device(self.device):
            self.positions = tf.constant(positions(POSITIONS, hyper.d_model))
            self.p = {name: tf.Variable(value, name=name) for name, value in initial.items()}
            self.moments = {
                moment: tf.Variable(tf.zeros_like(value), name=moment)
                for name, value in self.p.items()
                for moment in ((f"first/{name}",) if is_matrix(name) else (f"first/{name}", f"second/{name}"))
            }
        pairs, scalar = tf.TensorSpec((None, None), tf.int32), tf.TensorSpec((), tf.float32)
        noise = tuple(
            tf.TensorSpec((1 + sublayers, None, None, hyper.d_model), tf.uint8)
            for sublayers in (2 * hyper.encoder_layers, 3 * hyper.decoder_layers)
        )
        cached = [[tf.TensorSpec((None, None, hyper.d_model), self.dtype)] * 2] * hyper.decoder_layers
        vector, mask = tf.TensorSpec((None,), tf.int32), tf.TensorSpec((None, 1, 1, None), self.dtype)
        self.graph_step = tf.function(self._graph_step, (pairs, pairs, pairs, noise, scalar, scalar))
        self.graph_logits = tf.function(self._graph_logits, (pairs, pairs))
        self.graph_begin = tf.function(self._graph_begin, (pairs,))
        self.graph_next = tf.function(self._graph_next, ((cached, mask), cached, vector, vector))
        self.load_state_dict({**initial, "step": np.array(0)})

    def train_until(self, samples: int) -> TrainStats:
        """Take whole steps until `samples` sentence pairs have been seen."""
        if self.batches is None:
            data = Batches(self.data["train_source"], self.data["train_target"], self.hyper, self.seed)
            self.steps_per_epoch = data.steps_per_epoch
            self.batches = data.iterate(self.step)
        size = self.hyper.global_batch_size
        while True:
            loss = self.train_step(next(self.batches), self.hyper.learning_rate(self.step, self.steps_per_epoch))
            self.step += 1
            if self.step * size >= samples:
                return TrainStats(self.step * size, float(loss))

    def train_step(self, batch: Batch, factor: float) -> tf.Tensor:
        """One step at `factor` times the learning rates; the loss, a mean over the target's subwords."""
        with tf.device(self.device):
            tensors = (tf.constant(a) for a in (batch.source, batch.inputs, batch.labels))
            noise = tuple(tf.constant(a) for a in batch.noise)
            return self.graph_step(*tensors, noise, tf.constant(self.step, tf.float32), tf.constant(factor, tf.float32))

    def _graph_step(
        self,
        source: tf.Tensor,
        inputs: tf.Tensor,
        labels: tf.Tensor,
        noise: tuple[tf.Tensor, ...],
        step: tf.Tensor,
        factor: tf.Tensor,
    ) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = self.loss(source, inputs, labels, noise)
            scaled = loss * self.scale
        gradients = unscaled(tape.gradient(scaled, self.p), self.scale)
        update(self.p, self.moments, gradients, self.hyper, step, factor, self.dtype)
        return loss

    def loss(self, source: tf.Tensor, inputs: tf.Tensor, labels: tf.Tensor, noise: tuple[tf.Tensor, ...]) -> tf.Tensor:
        """Cross entropy with label smoothing, with dropout."""
        p = self.cast()
        drop_source, drop_target = (Dropout(sites, self.hyper.dropout) for sites in noise)
        logits, _ = decode(p, inputs, encode(p, source, self.hyper, drop_source), self.hyper, drop_target)
        smooth, subwords = self.hyper.label_smoothing, logits.shape[-1]
        targets = tf.one_hot(labels, subwords, 1 - smooth + smooth / subwords, smooth / subwords)
        losses = tf.nn.softmax_cross_entropy_with_logits(targets, tf.cast(logits, tf.float32))
        real = tf.cast(labels != PAD, tf.float32)
        return tf.reduce_sum(losses * real) / tf.reduce_sum(real)

    def logits(self, source: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """Logits float32 [B, T, V] of the subword after each of `inputs` [B, T], without dropout."""
        with tf.device(self.device):
            logits: np.ndarray = self.graph_logits(tf.constant(source), tf.constant(inputs)).numpy()
        return logits

    def _graph_logits(self, source: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        p, keep = self.cast(), Dropout(None, 0)
        logits, _ = decode(p, inputs, encode(p, source, self.hyper, keep), self.hyper, keep)
        return tf.cast(logits, tf.float32)

    def begin(self, source: tf.Tensor) -> Step:
        """The one-token step for translating `source` [B, S], with a cache of keys and values."""
        with tf.device(self.device):
            memory = self.graph_begin(source)
            empty = tf.zeros((source.shape[0] * self.hyper.beam_size, 0, self.hyper.d_model), self.dtype)
        cache: Cache = [[empty, empty]] * self.hyper.decoder_layers

        def step(subwords: np.ndarray, parents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            nonlocal cache
            with tf.device(self.device):
                inputs, rows = (tf.constant(a, tf.int32) for a in (subwords, parents))
                scores, found, cache = self.graph_next(memory, cache, inputs, rows)
            return scores.numpy(), found.numpy()

        return step

    def _graph_begin(self, source: tf.Tensor) -> Memory:
        return encode(self.cast(), source, self.hyper, Dropout(None, 0))

    def _graph_next(
        self, memory: Memory, cache: Cache, inputs: tf.Tensor, rows: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, Cache]:
        past = [[tf.gather(x, rows) for x in kv] for kv in cache]
        whole, present = decode(self.cast(), inputs[:, None], memory, self.hyper, Dropout(None, 0), past)
        logits = tf.cast(whole[:, 0], tf.float32)
        scores, found = tf.math.top_k(logits, self.hyper.beam_size + 1)
        return scores - tf.reduce_logsumexp(logits, 1, keepdims=True), found, present

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The translation of each test sentence."""
        return translate(self.begin, self.questions.of(data), self.data["subword_model"], self.hyper)

    def made_questions(self, data: Mapping[str, np.ndarray]) -> list[tuple[np.ndarray, tf.Tensor]]:
        """The test sentences, as `translate` takes them."""
        return [(chosen, self.on_device(batch)) for chosen, batch in questions(data["test_source"])]

    def cast(self) -> Parameters:
        """The parameters in the training precision, but the embeddings; the latter in it as the `output` layer."""
        cast = {name: tf.cast(value, self.dtype) for name, value in self.p.items() if name != "embedding"}
        embedding = tf.convert_to_tensor(self.p["embedding"])
        return cast | {"embedding": embedding, "output": tf.cast(embedding, self.dtype), "positions": self.positions}

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, the optimizers' moments and the step."""
        variables = {**self.p, **self.moments}
        return {name: value.numpy() for name, value in variables.items()} | {"step": np.array(self.step)}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework; without moments they start at zero."""
        for name, variable in (self.p | self.moments).items():
            variable.assign(state[name] if name in state else np.zeros(variable.shape, np.float32))
        self.step = int(state["step"])
        self.batches = None

    def on_device(self, values: np.ndarray) -> tf.Tensor:
        """The values as a tensor."""
        with tf.device(self.device):
            return tf.constant(values)


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TensorFlowTranslator:
    """The implementation, traced and warmed up on made-up sentences; its state is that of the seed."""
    keep_freed_memory()
    hyper = Hyperparameters.of(hyperparameters)
    made = TensorFlowTranslator(hyper, data, seed, device)
    initial = made.state_dict()
    rows = [np.full(16, 5)] * hyper.global_batch_size
    made.train_step(make_batch(hyper, rows, rows, [0]), 0.0)
    step = made.begin(made.on_device(np.full((8, 16), 5, np.int32)))
    step(np.full(8 * hyper.beam_size, 5), np.arange(8 * hyper.beam_size))
    made.load_state_dict(initial)
    return made
