"""Translation in TensorFlow: training; the network is in `tensorflow_network.py`, used in `tensorflow_translating.py`.

`pilot` and `full` are trained otherwise: `tensorflow_transformer.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

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
from reference_impls.translation.tensorflow_network import cross_entropy
from reference_impls.translation.tensorflow_transformer import TensorFlowTransformer
from reference_impls.translation.tensorflow_transformer import build as build_transformer
from reference_impls.translation.tensorflow_translating import Translator
from suite.harness.implementation import Device
from suite.harness.memory import keep_freed_memory
from tasks.translation.subwords import BEGIN, PAD

ACCELERATORS = 1024
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
SHARED_BY = ("part_size",)


class TensorFlowTranslator(Translator[Hyperparameters, tuple[Batch, float]]):
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
        self.source, self.target = tf.zeros((0, 0), tf.int64), tf.zeros((0, 0), tf.int64)
        self.filled = False
        compiled = device.kind == "gpu" and self.workers.size == 1  # XLA cannot send to other workers
        pairs, scalar = tf.TensorSpec((None, None), tf.int64), tf.TensorSpec((), tf.int32)
        drawn = tf.TensorSpec((None,), tf.int64), scalar, scalar, tf.TensorSpec((2,), tf.int32), tf.TensorSpec(())
        # What is compiled begins after the choice of rows, since the number of all rows is not known beforehand
        self.update = tf.function(self._update, jit_compile=True, autograph=False) if compiled else self._update
        self.graph_step = (
            self._graph_step if compiled else tf.function(self._graph_step, (pairs, pairs, *drawn), autograph=False)
        )
        self.load_state_dict({**initial_parameters(hyper, vocabulary(data), seed), "step": np.array(0)})

    def feed(self) -> Iterator[tuple[Batch, float]]:
        """Each step's batch, and factor on the learning rates; sentences are copied to the device once."""
        source, target = (padded(self.data[name]) for name in ("train_source", "train_target"))
        if not self.filled:
            self.keep(source, target)
            self.filled = True
        batches = Batches(source, target, self.hyper, self.seed, self.kind)
        steps = enumerate(batches.iterate(self.step), self.step)
        return ((batch, self.hyper.learning_rate(step, batches.steps_per_epoch)) for step, batch in steps)

    def keep(self, source: np.ndarray, target: np.ndarray) -> None:
        """Bring the training sentences [N, L] to the device; the targets with BEGIN before them.

        As int64: even with a GPU TensorFlow keeps int32 in the host's memory, and would send them all at each step.
        """
        self.source = self.on_device(source.astype(np.int64))
        self.target = self.on_device(np.pad(target.astype(np.int64), ((0, 0), (1, 0)), constant_values=BEGIN))

    def train_step(self, fed: tuple[Batch, float]) -> tf.Tensor:
        """Take one step; return the loss, a mean over the targets' subwords."""
        batch, factor = fed
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
        variables, split = [*self.matrices, *self.others], len(self.matrices)
        with tf.GradientTape() as tape:
            loss = self.loss(source, target, seed)
            scaled = self.scaler.scale(loss)

        def apply_muon(gradients: Sequence[tf.Tensor]) -> None:
            self.muon.apply(gradients, self.hyper.muon_learning_rate * factor)

        def apply_adam(gradients: Sequence[tf.Tensor]) -> None:
            self.adam.learning_rate.assign(self.hyper.opt_base_learning_rate * factor)
            self.adam.apply(gradients, self.others)

        gradients = self.workers.averaged(tape.gradient(scaled, variables))
        self.scaler.step((gradients[:split], apply_muon), (gradients[split:], apply_adam))
        return loss

    def loss(self, source: tf.Tensor, target: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Cross entropy with label smoothing, of sources [B, S] and targets with BEGIN before them [B, 1 + T]."""
        logits, following = self.model(source, target[:, :-1], seed), tf.reshape(target[:, 1:], (-1,))
        summed = tf.reduce_sum(cross_entropy(logits, following, self.hyper.label_smoothing))
        return summed / self.workers.mean(tf.reduce_sum(tf.cast(following != PAD, tf.float32)))

    def warm_up(self) -> None:
        """Trace and compile steps and searches of every length, on made-up sentences."""
        size = self.hyper.global_batch_size
        made_up = np.full((size, BUCKETS[-1]), 5, np.int32)
        self.keep(made_up, made_up)
        lengths = BUCKETS if self.kind == "gpu" else BUCKETS[:1]
        for length in reversed(lengths):
            self.train_step((Batch(np.arange(size), length, length), 0.0))
        self.warm_up_search(lengths)


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TensorFlowTranslator | TensorFlowTransformer:
    """The implementation, traced and warmed up on made-up sentences of each length; its state comes from `seed`.

    A recipe that names a model gets the one of `tensorflow_transformer.py`.
    """
    if "model" in hyperparameters:
        return build_transformer(hyperparameters, data, seed, device)
    keep_freed_memory()
    return TensorFlowTranslator(Hyperparameters.of(hyperparameters), data, seed, device).warmed_up()
