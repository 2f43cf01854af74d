"""Recommendation in TensorFlow: the twin of `torch.py`, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from reference_impls.evaluation_cache import EvaluationCache
from reference_impls.recommendation.shared import (
    EVALUATION_BATCH,
    NEVER,
    Histories,
    Hyperparameters,
    initial_parameters,
    made_up_windows,
    rankings,
)
from reference_impls.shares import part, require, share
from reference_impls.tensorflow_optimizers import AdamW, GradScaler
from reference_impls.tensorflow_shared import Dense, TensorFlowTrainer, device_name, dropout_seed, policy
from reference_impls.tensorflow_workers import Workers
from suite.harness.implementation import Device

ACCELERATORS = 1024
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
SHARED_BY = ()
Asked = tuple[tf.Tensor, int, tf.Tensor]  # windows, length, candidates; see `Question`
Fed = tuple[np.ndarray, int, float]  # windows, length, learning rate


def dropout(x: tf.Tensor, rate: float, seed: tf.Tensor | None, site: int) -> tf.Tensor:
    """Dropout of `x`, determined by `seed` int32 [2] and `site`; without a seed nothing is dropped."""
    if seed is None or rate == 0:
        return x
    seed = tf.random.experimental.stateless_fold_in(seed, site)
    return tf.nn.experimental.stateless_dropout(x, rate, seed, rng_alg="threefry")


class Block(keras.layers.Layer):
    """Attention to what was taken before, then an MLP, each after a norm and added to its input."""

    def __init__(self, hyper: Hyperparameters, policy: str, number: int) -> None:
        super().__init__(name=f"blocks.{number}")
        d, self.heads, self.rate, self.number = hyper.hidden_size, hyper.heads, hyper.dropout, number
        self.attention_norm, self.mlp_norm = (
            keras.layers.LayerNormalization(epsilon=1e-5, dtype="float32", name=name)
            for name in ("attention_norm", "mlp_norm")
        )
        self.query, self.key_value, self.out, self.up, self.down = (
            Dense(size, dtype=policy, name=name)
            for size, name in ((d, "query"), (2 * d, "key_value"), (d, "out"), (4 * d, "up"), (d, "down"))
        )

    def call(self, x: tf.Tensor, asked: tf.Tensor, mask: tf.Tensor, seed: tf.Tensor | None) -> tf.Tensor:
        """The output [B, Q, d] at the positions `asked` [B, Q, d], which are some or all of `x` [B, L, d].

        `mask` [Q, L] or [B, 1, Q, L] is -inf where a position comes later than the one asked, else 0.
        """
        batch, length, d = x.shape
        normed = self.attention_norm(x)
        queried = normed if asked is x else self.attention_norm(asked)
        size = (batch, -1, self.heads, d // self.heads)
        q = tf.transpose(tf.reshape(self.query(queried), size), (0, 2, 1, 3))
        pairs = tf.reshape(self.key_value(normed), (batch, length, 2, *size[2:]))
        k, v = tf.unstack(tf.transpose(pairs, (2, 0, 3, 1, 4)))
        weights = tf.matmul(q / q.shape[3] ** 0.5, k, transpose_b=True) + tf.cast(mask, q.dtype)
        weights = tf.cast(tf.nn.softmax(tf.cast(weights, tf.float32)), v.dtype)
        mixed = self.out(tf.reshape(tf.transpose(tf.matmul(weights, v), (0, 2, 1, 3)), (batch, -1, d)))
        asked += dropout(tf.cast(mixed, tf.float32), self.rate, seed, 2 * self.number + 1)
        y = self.down(tf.nn.gelu(self.up(self.mlp_norm(asked))))
        return asked + dropout(tf.cast(y, tf.float32), self.rate, seed, 2 * self.number + 2)


class SASRec(keras.Model):
    """A causal Transformer over a history; items are predicted by their embeddings."""

    def __init__(self, hyper: Hyperparameters, items: int, policy: str) -> None:
        super().__init__(name="sasrec")
        self.rate = hyper.dropout
        self.item_embedding, self.position_embedding = (
            keras.layers.Embedding(count, hyper.hidden_size, name=name)
            for count, name in ((items + 1, "item_embedding"), (hyper.lengths[-1], "position_embedding"))
        )
        self.item_bias = self.add_weight(shape=(items,), initializer="zeros", name="item_bias")
        self.blocks = [Block(hyper, policy, number) for number in range(hyper.layers)]
        self.norm = keras.layers.LayerNormalization(epsilon=1e-5, dtype="float32", name="norm")
        self.dtype_of_products = keras.DTypePolicy(policy).compute_dtype

    def call(self, inputs: tf.Tensor, last: tf.Tensor | None = None, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Logits [B, L, items] of what comes after each position of `inputs` [B, L], or after `last` [B]: [B, items].

        `seed` [2] is that of dropout; without it nothing is dropped.
        """
        positions = tf.range(inputs.shape[1])
        mask = tf.where(positions <= positions[:, None], 0.0, -np.inf)
        x = dropout(self.item_embedding(inputs) + self.position_embedding(positions), self.rate, seed, 0)
        for block in self.blocks[:-1]:
            x = block(x, x, mask, seed)
        if last is None:
            x = self.blocks[-1](x, x, mask, seed)
        else:
            asked = tf.gather(x, last[:, None], batch_dims=1)
            x = self.blocks[-1](x, asked, tf.gather(mask, last)[:, None, None], seed)[:, 0]
        hidden = tf.cast(self.norm(x), self.dtype_of_products)
        weight = tf.cast(self.item_embedding.embeddings[:-1], hidden.dtype)
        return tf.cast(tf.matmul(hidden, weight, transpose_b=True), tf.float32) + self.item_bias


def inputs_before(items: tf.Tensor, windows: tf.Tensor, length: int, start: int) -> tf.Tensor:
    """The item taken before each target of the windows [B, 3], as [B, L]; `start` before the first of a history."""
    first, begin, _ = tf.unstack(windows[:, :, None], axis=1)
    places = begin + tf.range(length, dtype=tf.int64)
    return tf.where(places > first, tf.gather(items, tf.clip_by_value(places - 1, 0, items.shape[0] - 1)), start)


def targets_of(items: tf.Tensor, windows: tf.Tensor, length: int) -> tf.Tensor:
    """The targets of the windows [B, 3], as [B, L], with -1 after the end."""
    _, begin, end = tf.unstack(windows[:, :, None], axis=1)
    places = begin + tf.range(length, dtype=tf.int64)
    return tf.where(places < end, tf.gather(items, tf.minimum(places, items.shape[0] - 1)), -1)


def taken_from(items: tf.Tensor, windows: tf.Tensor, count: int) -> tf.Tensor:
    """The position in each of the windows [B, 3] from which on each item cannot come again, as [B, count].

    An item is in a history only once, so no history has more than `count` items.
    """
    first, begin, end = tf.unstack(windows[:, :, None], axis=1)
    places = first + tf.range(count, dtype=tf.int64)
    item = tf.where(places < end, tf.gather(items, tf.minimum(places, items.shape[0] - 1)), count)
    never = tf.fill((windows.shape[0], count + 1), tf.constant(NEVER, tf.int64))
    rows = tf.broadcast_to(tf.range(windows.shape[0], dtype=tf.int64)[:, None], item.shape)
    return tf.tensor_scatter_nd_update(never, tf.stack([rows, item], 2), places - begin + 1)[:, :-1]


class TensorFlowRecommender(TensorFlowTrainer[Hyperparameters, Fed]):
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        require(device, hyper.global_batch_size, "windows")
        self.hyper, self.data, self.seed, self.worker = hyper, data, seed, device
        self.workers = Workers(device)
        self.device = device_name(device)
        self.count = len(data["item_ids"])
        self.items = self.on_device(np.zeros(len(data["train_items"]), np.int64))
        self.histories: Histories | None = None
        self.questions = EvaluationCache(self.made_questions)
        with tf.device(self.device):
            self.model = SASRec(hyper, self.count, policy(device).name)
            self.fp32 = SASRec(hyper, self.count, "float32")
            for model in (self.model, self.fp32):
                model(np.zeros((1, hyper.lengths[0]), np.int64))
            self.optimizer = AdamW(
                beta_1=hyper.opt_adamw_beta_1,
                beta_2=hyper.opt_adamw_beta_2,
                epsilon=hyper.opt_adamw_epsilon,
                weight_decay=hyper.opt_adamw_weight_decay,
            )
            self.optimizer.exclude_from_weight_decay([v for v in self.model.trainable_variables if len(v.shape) == 1])
            self.optimizer.build(self.model.trainable_variables)
            self.scaler = GradScaler(device.precision == "fp16")
        self.optimizers = (self.optimizer,)
        alone = self.workers.size == 1  # XLA cannot send
        self.graph_step = tf.function(self._graph_step, jit_compile=alone, autograph=False)
        self.gradients = tf.function(self._gradients, jit_compile=True, autograph=False)
        self.graph_logits = tf.function(self._graph_logits, jit_compile=True, autograph=False)
        self.load_state_dict({**initial_parameters(hyper, self.count, seed), "step": np.array(0)})

    def known(self) -> Histories:
        """The training data, read and copied to the device at the first call."""
        if self.histories is None:
            self.histories = Histories(self.data, self.hyper, self.seed)
            self.items = self.on_device(np.array(self.data["train_items"]).astype(np.int64))
        return self.histories

    def feed(self) -> Iterator[Fed]:
        """The windows of each step, their length, and the learning rate."""
        known = self.known()
        steps = enumerate(known.batches(self.step), self.step)
        return ((*batch, self.hyper.learning_rate(step, known.steps_per_epoch)) for step, batch in steps)

    def train_step(self, fed: Fed) -> tf.Tensor:
        """Take one step; return its mean loss."""
        windows, length, rate = fed
        seed = dropout_seed(self.seed, self.step, self.worker.rank)
        with tf.device(self.device):
            return self.graph_step(self.items, share(windows, self.worker), length, np.float32(rate), seed)

    def _graph_step(
        self, items: tf.Tensor, windows: tf.Tensor, length: int, rate: tf.Tensor, seed: tf.Tensor
    ) -> tf.Tensor:
        variables = self.model.trainable_variables
        count = self.workers.mean(tf.reduce_sum(windows[:, 2] - windows[:, 1]))
        loss, gradients = self.gradients(items, windows, length, seed, count)
        self.optimizer.learning_rate.assign(rate)
        self.scaler.step((self.workers.averaged(gradients), lambda true: self.optimizer.apply(true, variables)))
        return loss

    def _gradients(
        self, items: tf.Tensor, windows: tf.Tensor, length: int, seed: tf.Tensor, count: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """The loss, and the gradients of the scaled loss."""
        with tf.GradientTape() as tape:
            loss = self.loss(items, windows, length, seed, count)
            scaled = self.scaler.scale(loss)
        return loss, [tf.convert_to_tensor(each) for each in tape.gradient(scaled, self.model.trainable_variables)]

    def loss(
        self, items: tf.Tensor, windows: tf.Tensor, length: int, seed: tf.Tensor | None, count: tf.Tensor
    ) -> tf.Tensor:
        """Cross-entropy of the targets of `windows` [B, 3] among all items that the user has not taken yet.

        Summed, and divided by `count`.
        """
        logits = self.model(inputs_before(items, windows, length, self.count), seed=seed)
        taken = taken_from(items, windows, self.count)[:, None] <= tf.range(length, dtype=tf.int64)[:, None]
        targets = targets_of(items, windows, length)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(targets, 0), tf.where(taken, -1e9, logits))
        counted = tf.cast(targets >= 0, tf.float32)
        return tf.reduce_sum(losses * counted) / count

    def _graph_logits(self, items: tf.Tensor, windows: tf.Tensor, length: int) -> tf.Tensor:
        """Logits float32 [B, items] of what comes next in `windows` [B, 3], computed in fp32."""
        inputs = inputs_before(items, windows, length, self.count)
        given = (inputs, windows[:, 2] - windows[:, 1])
        logits, _ = self.fp32.stateless_call(self.model.trainable_variables, [], *given)
        return logits

    def logits(self, windows: tf.Tensor, length: int) -> tf.Tensor:
        """See `_graph_logits`."""
        with tf.device(self.device):
            return self.graph_logits(self.items, windows, length)

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The ranking of each user's best candidates."""
        rows, questions = self.questions.of(data)
        with tf.device(self.device):
            found = [
                tf.gather(self.logits(windows, length), asked, batch_dims=1) for windows, length, asked in questions
            ]
            scores = tf.gather(tf.concat(found, 0), rows)
            scores, order = tf.math.top_k(tf.where(tf.math.is_nan(scores), -np.inf, scores), scores.shape[1])
        candidates = share(data["test_candidates"], self.worker)
        return rankings(scores.numpy(), np.take_along_axis(candidates, order.numpy(), 1))

    def made_questions(self, data: Mapping[str, np.ndarray]) -> tuple[tf.Tensor, list[Asked]]:
        """Each user's row in the answers, and the questions about the test candidates, on the device."""
        candidates = data["test_candidates"]
        rows, questions = self.known().questions(candidates, part(len(candidates), self.worker))
        return self.on_device(rows), [
            (self.on_device(each.windows), each.length, self.on_device(each.candidates)) for each in questions
        ]

    def on_device(self, values: np.ndarray) -> tf.Tensor:
        """The values as a tensor."""
        with tf.device(self.device):
            return tf.constant(values)

    def warm_up(self) -> None:
        """Trace and compile steps and evaluations of every length, on made-up windows."""
        for length in reversed(self.hyper.lengths):
            self.train_step((made_up_windows(self.hyper.global_batch_size), length, 0.0))
            self.logits(self.on_device(made_up_windows(EVALUATION_BATCH)), length)


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TensorFlowRecommender:
    """The implementation, compiled for windows of each length; its state comes from `seed`."""
    return TensorFlowRecommender(Hyperparameters.of(hyperparameters), data, seed, device).warmed_up()
