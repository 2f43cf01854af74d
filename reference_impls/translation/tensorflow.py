"""Translation in TensorFlow: training; the network is in `tensorflow_network.py`, used in `tensorflow_translating.py`.

`pilot` and `full` are trained otherwise: `tensorflow_transformer.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from reference_impls import tensorflow_shared
from reference_impls.shares import require, share
from reference_impls.tensorflow_optimizers import AdamW, GradScaler, Muon
from reference_impls.tensorflow_shared import dropout_seed, torch_name
from reference_impls.translation.shared import (
    BUCKETS,
    Batch,
    Batches,
    Hyperparameters,
    initial_parameters,
    is_matrix,
    padded,
    vocabulary,
)
from reference_impls.translation.tensorflow_transformer import TensorFlowTransformer
from reference_impls.translation.tensorflow_transformer import build as build_transformer
from reference_impls.translation.tensorflow_translating import Translator
from suite.harness.implementation import Device, TrainStats
from suite.harness.memory import keep_freed_memory
from tasks.translation.subwords import BEGIN, PAD

ACCELERATORS = 1024
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")


class TensorFlowTranslator(Translator):
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        require(device, hyper.global_batch_size, "sentence pairs")
        super().__init__(hyper, data, device)
        self.hyper, self.seed = hyper, seed
        with tf.device(self.device):
            trained = self.model.trainable_variables
            self.matrices = [v for v in trained if is_matrix(torch_name(v.path))]
            self.others = [v for v in trained if not is_matrix(torch_name(v.path))]
            self.muon = Muon(
                self.matrices, hyper.muon_momentum, hyper.muon_steps, self.dtype, weight_decay=hyper.opt_weight_decay
            )
            self.adam = AdamW(
                hyper.opt_base_learning_rate, weight_decay=0.0, beta_1=hyper.opt_adam_beta_1,
                beta_2=hyper.opt_adam_beta_2, epsilon=1e-9,
            )  # fmt: skip
            self.adam.build(self.others)
            self.scaler = GradScaler(device.precision == "fp16")
        self.optimizers = (self.muon, self.adam)
        self.batches: Iterator[Batch] | None = None
        self.source, self.target = tf.zeros((0, 0), tf.int32), tf.zeros((0, 0), tf.int32)
        self.steps_per_epoch = 0
        compiled = device.kind == "gpu" and self.workers.size == 1  # XLA cannot send to other workers
        pairs, scalar = tf.TensorSpec((None, None), tf.int32), tf.TensorSpec((), tf.int32)
        drawn = tf.TensorSpec((None,), tf.int64), scalar, scalar, tf.TensorSpec((2,), tf.int32), tf.TensorSpec(())
        # What is compiled begins after the choice of rows, for the number of all rows is not known beforehand.
        self.update = tf.function(self._update, jit_compile=True, autograph=False) if compiled else self._update
        self.graph_step = (
            self._graph_step if compiled else tf.function(self._graph_step, (pairs, pairs, *drawn), autograph=False)
        )
        self.load_state_dict({**initial_parameters(hyper, vocabulary(data), seed), "step": np.array(0)})

    def train_until(self, samples: int) -> TrainStats:
        """Take whole steps until `samples` sentence pairs have been seen."""
        if self.batches is None:
            source, target = (padded(self.data[name]) for name in ("train_source", "train_target"))
            if not self.steps_per_epoch:
                self.keep(source, target)
            data = Batches(source, target, self.hyper, self.seed, self.kind)
            self.steps_per_epoch = data.steps_per_epoch
            self.batches = data.iterate(self.step)
        size = self.hyper.global_batch_size
        while True:
            loss = self.train_step(next(self.batches), self.hyper.learning_rate(self.step, self.steps_per_epoch))
            self.step += 1
            if self.step * size >= samples:
                return TrainStats(self.step * size, float(loss))

    def keep(self, source: np.ndarray, target: np.ndarray) -> None:
        """Bring the training sentences [N, L] to the device; the targets with BEGIN before them."""
        self.source = self.on_device(source)
        self.target = self.on_device(np.pad(target, ((0, 0), (1, 0)), constant_values=BEGIN))

    def train_step(self, batch: Batch, factor: float) -> tf.Tensor:
        """One step at `factor` times the learning rates; the loss, a mean over the target's subwords."""
        seed, lengths = dropout_seed(self.seed, self.step, self.worker.rank), (batch.source_length, batch.target_length)
        rows = share(batch.rows, self.worker)
        with tf.device(self.device):
            numbers = tf.constant(seed), tf.constant(factor, tf.float32)
            return self.graph_step(self.source, self.target, tf.constant(rows), *lengths, *numbers)

    def _graph_step(
        self,
        source: tf.Tensor,
        target: tf.Tensor,
        rows: tf.Tensor,
        source_length: tf.Tensor | int,
        target_length: tf.Tensor | int,
        seed: tf.Tensor,
        factor: tf.Tensor,
    ) -> tf.Tensor:
        chosen = tf.gather(source[:, :source_length], rows), tf.gather(target[:, : target_length + 1], rows)
        return self.update(*chosen, seed, factor)

    def _update(self, source: tf.Tensor, target: tf.Tensor, seed: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
        variables = [*self.matrices, *self.others]
        with tf.GradientTape() as tape:
            loss = self.loss(source, target, seed)
            scaled = self.scaler.scale(loss)

        def apply(gradients: Sequence[tf.Tensor]) -> None:
            self.muon.apply(gradients[: len(self.matrices)], self.hyper.muon_learning_rate * factor)
            self.adam.learning_rate.assign(self.hyper.opt_base_learning_rate * factor)
            self.adam.apply(gradients[len(self.matrices) :], self.others)

        self.scaler.step(self.workers.averaged(tape.gradient(scaled, variables)), apply)
        return loss

    def loss(self, source: tf.Tensor, target: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Cross entropy with label smoothing, of sources [B, S] and targets with BEGIN before them [B, 1 + T]."""
        logits = self.model(source, target[:, :-1], seed)
        labels, subwords, smooth = tf.reshape(target[:, 1:], (-1,)), logits.shape[-1], self.hyper.label_smoothing
        wanted = tf.one_hot(labels, subwords, 1 - smooth + smooth / subwords, smooth / subwords)
        losses = tf.nn.softmax_cross_entropy_with_logits(wanted, tf.cast(logits, tf.float32))
        real = tf.cast(labels != PAD, tf.float32)
        return tf.reduce_sum(losses * real) / self.workers.mean(tf.reduce_sum(real))

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, the optimizers' moments and the step."""
        return tensorflow_shared.state_dict(self.model, self.optimizers, self.scaler, self.step)

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework; without moments they start at zero."""
        self.step = tensorflow_shared.load_state_dict(self.model, self.optimizers, self.scaler, state)
        self.batches = None


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TensorFlowTranslator | TensorFlowTransformer:
    """The implementation, traced and warmed up on made-up sentences of each length; its state is that of the seed.

    A recipe that names a model has that of `tensorflow_transformer.py`.
    """
    if "model" in hyperparameters:
        return build_transformer(hyperparameters, data, seed, device)
    keep_freed_memory()
    hyper = Hyperparameters.of(hyperparameters)
    made = TensorFlowTranslator(hyper, data, seed, device)
    made_up = np.full((hyper.global_batch_size, BUCKETS[-1]), 5, np.int32)
    made.keep(made_up, made_up)
    lengths = BUCKETS if device.kind == "gpu" else BUCKETS[1:2]
    for length in lengths:
        made.train_step(Batch(np.arange(hyper.global_batch_size), length, length), 0.0)
    made.warm_up_search(lengths)
    made.load_state_dict({**initial_parameters(hyper, vocabulary(data), seed), "step": np.array(0)})
    return made
