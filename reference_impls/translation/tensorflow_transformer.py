"""The Transformer of `transformer.py` in TensorFlow, the twin of `torch_transformer.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from reference_impls.ahead import Ahead
from reference_impls.precision import LOSS_SCALE
from reference_impls.shares import part, require
from reference_impls.tensorflow_optimizers import AdamW, GradScaler
from reference_impls.tensorflow_shared import dropout_seed
from reference_impls.translation.shared import vocabulary
from reference_impls.translation.tensorflow_network import cross_entropy
from reference_impls.translation.tensorflow_translating import Translator
from reference_impls.translation.transformer import (
    SEARCHED,
    Hyperparameters,
    Pairs,
    Part,
    initial_parameters,
    made_up,
)
from suite.harness.implementation import Device
from suite.harness.memory import keep_freed_memory


class TensorFlowTransformer(Translator[Hyperparameters, list[Part]]):
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        require(device, hyper.parts, "parts")
        super().__init__(hyper, data, device)
        self.hyper, self.seed = hyper, seed
        self.share = len(range(hyper.parts)[part(hyper.parts, device)])
        with tf.device(self.device):
            self.trained = self.model.trainable_variables
            self.adam = AdamW(
                0.0,
                weight_decay=0.0,
                beta_1=hyper.opt_adam_beta_1,
                beta_2=hyper.opt_adam_beta_2,
                epsilon=hyper.opt_adam_epsilon,
            )
            self.adam.build(self.trained)
            self.summed = [tf.Variable(tf.zeros(v.shape), trainable=False) for v in self.trained]
            self.scaler = GradScaler(device.precision == "fp16")
        self.optimizers = (self.adam,)
        gpu = device.kind == "gpu"
        pairs, scalar = tf.TensorSpec((None, None), tf.int32), tf.TensorSpec((), tf.float32)
        signature = (pairs, pairs, scalar, tf.TensorSpec((2,), tf.int32), tf.TensorSpec((), tf.int32))
        self.begin_step = tf.function(self._begin_step, autograph=False)
        shapes = None if gpu else signature  # a GPU's are fixed
        self.add = tf.function(self._add, shapes, jit_compile=gpu, autograph=False)
        self.end_step = tf.function(self._end_step, (scalar,), autograph=False)
        self.load_state_dict(
            {**initial_parameters(hyper, vocabulary(data), seed), "step": np.array(0), "scale": LOSS_SCALE}
        )

    def feed(self) -> Ahead[list[Part]]:
        """The worker's parts of each step, read ahead."""
        return Ahead(Pairs(self.data, self.hyper, self.seed, self.worker).iterate(self.step))

    def train_step(self, parts: Sequence[Part]) -> tf.Tensor:
        """Take one step on the worker's parts; return the mean loss over the subwords of its targets."""
        seed = tf.constant(dropout_seed(self.seed, self.step, self.worker.rank))
        with tf.device(self.device):
            self.begin_step()
            total = tf.add_n([self.add(*self.tensors(each), seed, tf.constant(each.number)) for each in parts])
            self.end_step(tf.constant(self.hyper.rate(self.step), tf.float32))
        return total

    def tensors(self, of: Part) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Sources, targets, and the divisor of their summed loss."""
        return tf.constant(of.source), tf.constant(of.target), tf.constant(of.subwords / self.workers.size, tf.float32)

    def _begin_step(self) -> None:
        for each in self.summed:
            each.assign(tf.zeros_like(each))

    def _add(
        self, source: tf.Tensor, target: tf.Tensor, divisor: tf.Tensor, seed: tf.Tensor, number: tf.Tensor
    ) -> tf.Tensor:
        """Add up a part's gradients; return what its targets [n, 1 + L] add to the loss of the step."""
        seed = tf.random.experimental.stateless_fold_in(seed, number)
        with tf.GradientTape() as tape:
            loss = self._loss(source, target, seed) / divisor
            scaled = self.scaler.scale(loss)
        for each, gradient in zip(self.summed, tape.gradient(scaled, self.trained), strict=True):
            each.assign_add(tf.convert_to_tensor(gradient))
        return loss

    def _loss(self, source: tf.Tensor, target: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Cross entropy with label smoothing, summed over the subwords of targets [n, 1 + L], of sources [n, L]."""
        logits, following = self.model(source, target[:, :-1], seed), tf.reshape(target[:, 1:], (-1,))
        return tf.reduce_sum(cross_entropy(logits, following, self.hyper.label_smoothing))

    def _end_step(self, rate: tf.Tensor) -> None:
        """Average over the workers, and take the step."""

        def apply(gradients: Sequence[tf.Tensor]) -> None:
            self.adam.learning_rate.assign(rate)
            self.adam.apply(gradients, self.trained)

        self.scaler.step((self.workers.averaged(self.summed), apply))

    def warm_up(self) -> None:
        """Trace and compile steps and searches of every length, on made-up sentences."""
        for parts in made_up(self.hyper, self.share, self.kind):
            self.train_step(parts)
        self.warm_up_search(SEARCHED[self.kind])


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TensorFlowTransformer:
    """The implementation, traced and warmed up on made-up sentences; its state comes from `seed`."""
    keep_freed_memory()
    return TensorFlowTransformer(Hyperparameters.of(hyperparameters), data, seed, device).warmed_up()
