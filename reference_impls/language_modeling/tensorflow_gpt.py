"""The GPT of `gpt.py` in TensorFlow: the twin of `torch_gpt.py`, function by function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from reference_impls.ahead import Ahead
from reference_impls.evaluation_cache import EvaluationCache
from reference_impls.language_modeling.gpt import (
    EPSILON,
    Evaluation,
    Hyperparameters,
    Sequences,
    at_once,
    blocks_of,
    evaluation,
    initial_parameters,
    is_matrix,
    made_up,
    made_up_audit,
    predictions,
    rotations,
)
from reference_impls.precision import LOSS_SCALE
from reference_impls.shares import part, require
from reference_impls.tensorflow_optimizers import AdamW, GradScaler, Muon
from reference_impls.tensorflow_shared import (
    TensorFlowTrainer,
    device_name,
    dtype,
    policy,
    torch_name,
)
from reference_impls.tensorflow_workers import Workers
from suite.harness.implementation import Device


def normalised(x: tf.Tensor) -> tf.Tensor:
    """RMSNorm (Zhang and Sennrich 2019) of `x` [..., C] along its last axis, without gains; float32."""
    wide = tf.cast(x, tf.float32)
    return wide * tf.math.rsqrt(tf.reduce_mean(tf.square(wide), -1, keepdims=True) + EPSILON)


class Block(keras.layers.Layer):
    """Causal attention, then a feed-forward layer of four times the width; each is added to its input."""

    def __init__(self, width: int, heads: int, dtype: keras.DTypePolicy, name: str) -> None:
        super().__init__(name=name, dtype=dtype, autocast=False)  # what comes in is float32
        self.width, self.heads, self.type = width, heads, dtype.compute_dtype

        def linear(name: str, outputs: int) -> keras.layers.Dense:
            return keras.layers.Dense(outputs, use_bias=False, dtype=dtype, name=name)

        self.query, self.key, self.value, self.mix = (linear(name, width) for name in ("query", "key", "value", "mix"))
        self.widen, self.narrow = linear("widen", 4 * width), linear("narrow", width)

    def call(self, x: tf.Tensor, cosines: tf.Tensor, sines: tf.Tensor) -> tf.Tensor:
        """Float32 [B, T, width] of `x` [B, T, width]; cosines and sines [T, 1, width / heads / 2]."""
        y = tf.cast(normalised(x), self.type)
        heads = (*x.shape[:2], self.heads, self.width // self.heads)
        query, key, value = (tf.reshape(layer(y), heads) for layer in (self.query, self.key, self.value))
        query, key = (tf.cast(rotated(normalised(each), cosines, sines), self.type) for each in (query, key))
        attended = keras.ops.dot_product_attention(query, key, value, is_causal=True)
        x += tf.cast(self.mix(tf.reshape(attended, y.shape)), tf.float32)
        wide = self.widen(tf.cast(normalised(x), self.type))
        return x + tf.cast(self.narrow(tf.square(tf.nn.relu(wide))), tf.float32)


def rotated(x: tf.Tensor, cosines: tf.Tensor, sines: tf.Tensor) -> tf.Tensor:
    """`x` [B, T, heads, C] with the two halves of its last axis turned by each position's angles."""
    first, second = tf.split(x, 2, -1)
    return tf.concat([first * cosines + second * sines, second * cosines - first * sines], -1)


class GPT(keras.Model):
    """Tokens to the logits of the tokens after them."""

    def __init__(self, hyper: Hyperparameters, policy: keras.DTypePolicy) -> None:
        super().__init__(name="gpt", dtype=policy)
        self.type = policy.compute_dtype
        self.embedding = keras.layers.Embedding(hyper.vocabulary_size, hyper.width, dtype="float32", name="embedding")
        self.blocks = [Block(hyper.width, hyper.heads, policy, f"blocks.{i}") for i in range(hyper.layers)]
        self.head = keras.layers.Dense(hyper.vocabulary_size, use_bias=False, dtype=policy, name="head")
        self.cosines, self.sines = (tf.constant(each[:, None]) for each in rotations(hyper))

    def call(self, words: tf.Tensor, places: tf.Tensor | None = None) -> tf.Tensor:
        """Logits float32 [B, T, V] of `words` [B, T]; [B, V] if `places` [B] names one place in each row."""
        x = normalised(self.embedding(words))
        for block in self.blocks:
            x = block(x, self.cosines, self.sines)
        if places is not None:
            x = tf.gather(x, places, axis=1, batch_dims=1)
        return tf.cast(self.head(tf.cast(normalised(x), self.type)), tf.float32)


class TensorFlowGPT(TensorFlowTrainer[Hyperparameters, np.ndarray]):
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        require(device, hyper.sequences, "sequences")
        hyper.require_rows(len(data["vocabulary"]))
        self.hyper, self.data, self.seed, self.worker = hyper, data, seed, device
        self.workers = Workers(device)
        self.device = device_name(device)
        self.share = len(range(hyper.sequences)[part(hyper.sequences, device)])
        self.at_once = at_once(self.share, hyper, device)
        length = hyper.sequence_length
        with tf.device(self.device):
            self.model = GPT(hyper, policy(device))
            self.model(tf.zeros((1, length), tf.int32))
            trained = self.model.trainable_variables
            self.matrices = [v for v in trained if is_matrix(torch_name(v.path))]
            self.rows = {torch_name(v.path): v for v in trained if not is_matrix(torch_name(v.path))}
            self.muon = Muon(self.matrices, hyper.muon_momentum, hyper.muon_steps, dtype(device))
            betas = {"beta_1": hyper.opt_adam_beta_1, "beta_2": hyper.opt_adam_beta_2}
            self.adams = {
                name: AdamW(0.0, weight_decay=0.0, epsilon=hyper.opt_adam_epsilon, **betas) for name in self.rows
            }
            for name, adam in self.adams.items():
                adam.build([self.rows[name]])
            self.scaler = GradScaler(device.precision == "fp16")
        self.optimizers = (self.muon, *self.adams.values())
        self.test = EvaluationCache(self.made_test)
        gpu = device.kind == "gpu"
        compiled = gpu and self.workers.size == 1  # XLA cannot send to other workers
        passes, rest = divmod(self.share, self.at_once)
        shapes = (passes, self.at_once, length + 1), (rest, length + 1)
        parts = [tf.TensorSpec(shape, tf.int32) for shape in shapes]
        self.graph_step = tf.function(
            self._graph_step, (*parts, tf.TensorSpec((), tf.float32)), jit_compile=compiled, autograph=False
        )
        words = tf.TensorSpec((self.at_once, length), tf.int32)
        self.evaluate = tf.function(self._evaluate, (words, words), jit_compile=gpu, autograph=False)
        self.load_state_dict({**initial_parameters(hyper, seed), "step": np.array(0), "scale": LOSS_SCALE})

    def feed(self) -> Ahead[np.ndarray]:
        """The worker's sequences of each step, read ahead."""
        return Ahead(Sequences(self.data, self.hyper, self.seed, self.worker).iterate(self.step))

    def train_step(self, sequences: np.ndarray) -> tf.Tensor:
        """Take one step on the worker's `sequences` int32 [share, T + 1]; return the mean loss, in nats per token."""
        factor = self.hyper.learning_rate(self.step)
        with tf.device(self.device):
            whole, rest = np.split(sequences, [len(sequences) // self.at_once * self.at_once])
            parts = tf.constant(whole.reshape(-1, self.at_once, sequences.shape[1]))
            return self.graph_step(parts, tf.constant(rest), tf.constant(factor, tf.float32))

    def _graph_step(self, parts: tf.Tensor, rest: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
        """One step on sequences [passes, n, T + 1] and on the remaining [m, T + 1], of which there may be none."""
        hyper, split = self.hyper, len(self.matrices)
        variables = [*self.matrices, *self.rows.values()]
        rates = {"embedding.weight": hyper.embedding_learning_rate, "head.weight": hyper.head_learning_rate}

        def added(sequences: tf.Tensor, total: tf.Tensor, summed: list[tf.Tensor]) -> tuple[Any, ...]:
            with tf.GradientTape() as tape:
                loss = self._loss(sequences)
                scaled = self.scaler.scale(loss)
            gradients = [tf.convert_to_tensor(each) for each in tape.gradient(scaled, variables)]
            return total + loss, [a + b for a, b in zip(summed, gradients, strict=True)]

        def accumulate(i: tf.Tensor, total: tf.Tensor, summed: list[tf.Tensor]) -> tuple[Any, ...]:
            return i + 1, *added(parts[i], total, summed)

        zeros = [tf.zeros(variable.shape) for variable in variables]
        count = parts.shape[0]
        state = tf.while_loop(lambda i, total, summed: i < count, accumulate, (0, 0.0, zeros), maximum_iterations=count)
        _, total, gradients = state
        if rest.shape[0]:
            total, gradients = added(rest, total, gradients)

        def apply_muon(gradients: Sequence[tf.Tensor]) -> None:
            self.muon.apply(gradients, hyper.muon_learning_rate * factor)

        def apply_adam(gradients: Sequence[tf.Tensor]) -> None:
            for (name, adam), gradient in zip(self.adams.items(), gradients, strict=True):
                adam.learning_rate.assign(rates[name] * factor)
                adam.apply([gradient], [self.rows[name]])

        gradients = self.workers.averaged(gradients)
        self.scaler.step((gradients[:split], apply_muon), (gradients[split:], apply_adam))
        return total

    def _loss(self, tokens: tf.Tensor) -> tf.Tensor:
        """What sequences [n, T + 1] add to the mean loss over the worker's part of a batch."""
        logits = self.model(tokens[:, :-1])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tokens[:, 1:], logits)
        return tf.reduce_sum(losses) / (self.hyper.global_batch_size / self.workers.size)

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The log-probabilities of the worker's share of the test text; from the last worker also those audited."""
        made, parts, audited = self.test.of(data)
        with tf.device(self.device):
            found = [self.evaluate(*each) for each in parts]
            text = tf.concat(found, 0).numpy() if found else np.empty(0, np.float32)
            distributions = self.distributions(*audited).numpy()
        return predictions(made, text, distributions, data["test_tokens"], self.worker)

    def _evaluate(self, words: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """The log-probabilities float32 [n, T] of `targets` after `words`, each [n, T]."""
        return tf.gather(self.log_probabilities(words), targets, axis=2, batch_dims=2)

    def distributions(self, words: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        """The log-probabilities float32 [A, V] of all tokens at one place [A] of each of `words` [A, T]."""
        return self.log_probabilities(words, places)

    def log_probabilities(self, words: tf.Tensor, places: tf.Tensor | None = None) -> tf.Tensor:
        """Log-probabilities float32 [n, T, V], or [n, V], of the data's tokens, without rows that stand for none."""
        return tf.nn.log_softmax(self.model(words, places)[..., : len(self.data["vocabulary"])])

    def made_test(self, data: Mapping[str, np.ndarray]) -> tuple[Evaluation, list[Any], Any]:
        """The worker's share of the test text, its parts as `_evaluate` takes them, and what `distributions` takes."""
        made = evaluation(data["test_tokens"], self.data, self.hyper, self.worker)
        pairs = zip(*(blocks_of(rows, self.at_once) for rows in (made.words, made.targets)), strict=True)
        with tf.device(self.device):
            parts = [tuple(map(tf.constant, pair)) for pair in pairs]
            places = tf.constant(made.audited % self.hyper.sequence_length)
            return made, parts, (tf.constant(made.audited_words), places)

    def warm_up(self) -> None:
        """Trace and compile steps and evaluations, on made-up sequences."""
        made = made_up(self.hyper, self.share)
        with tf.device(self.device):
            words = tf.constant(made[: self.at_once, :-1])
            audited, places = map(tf.constant, made_up_audit(self.hyper, self.data))
            self.train_step(made)
            self.evaluate(words, words)
            self.distributions(audited, places)


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TensorFlowGPT:
    """The implementation, traced and warmed up on random tokens; its state comes from `seed`."""
    return TensorFlowGPT(Hyperparameters.of(hyperparameters), data, seed, device).warmed_up()
