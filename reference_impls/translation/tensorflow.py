"""Translation in TensorFlow: training and search; the network is in `tensorflow_network.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from reference_impls import tensorflow_shared
from reference_impls.kept import Kept
from reference_impls.memory import keep_freed_memory
from reference_impls.shares import require, share
from reference_impls.tensorflow_optimizers import AdamW, GradScaler, Muon
from reference_impls.tensorflow_shared import device_name, dropout_seed, dtype, policy, torch_name
from reference_impls.tensorflow_workers import Workers
from reference_impls.translation import tensorflow_search
from reference_impls.translation.search import longest, questions, translate
from reference_impls.translation.shared import (
    BUCKETS,
    CHECKED,
    TOGETHER,
    Batch,
    Batches,
    Hyperparameters,
    initial_parameters,
    is_matrix,
    padded,
    vocabulary,
)
from reference_impls.translation.tensorflow_network import Memory, Transformer
from reference_impls.translation.tensorflow_search import Beams
from suite.harness.implementation import Device, TrainStats
from tasks.translation import BEGIN, PAD

ACCELERATORS = 1024
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")


class TensorFlowTranslator:
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        require(device, hyper.global_batch_size, "sentence pairs")
        self.hyper, self.data, self.seed, self.kind, self.worker = hyper, data, seed, device.kind, device
        self.workers = Workers(device)
        self.device, self.dtype = device_name(device), dtype(device)
        with tf.device(self.device):
            self.model = Transformer(hyper, vocabulary(data), policy(device))
            self.model.build((None, None))
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
        self.questions = Kept(self.made_questions)
        self.batches: Iterator[Batch] | None = None
        self.source, self.target = tf.zeros((0, 0), tf.int32), tf.zeros((0, 0), tf.int32)
        self.steps_per_epoch = 0
        on_gpu = device.kind == "gpu"
        compiled = on_gpu and self.workers.size == 1  # XLA cannot send to other workers
        pairs, scalar = tf.TensorSpec((None, None), tf.int32), tf.TensorSpec((), tf.int32)
        drawn = tf.TensorSpec((None,), tf.int64), scalar, scalar, tf.TensorSpec((2,), tf.int32), tf.TensorSpec(())
        # What is compiled begins after the choice of rows, for the number of all rows is not known beforehand.
        self.update = tf.function(self._update, jit_compile=True) if compiled else self._update
        self.graph_step = self._graph_step if compiled else tf.function(self._graph_step, (pairs, pairs, *drawn))
        self.graph_logits = tf.function(self._graph_logits, (pairs, pairs))
        self.graph_encode = tf.function(self._graph_encode, (pairs,))
        search = None if on_gpu else tensorflow_search.signature(hyper, self.dtype)  # a GPU's has fixed shapes
        self.graph_advance = tf.function(self._graph_advance, search, jit_compile=on_gpu)
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

    def logits(self, source: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """Logits float32 [B, T, V] of the subword after each of `inputs` [B, T], without dropout."""
        logits: np.ndarray = self.graph_logits(self.on_device(source), self.on_device(inputs)).numpy()
        return logits.reshape(*inputs.shape, -1)

    def _graph_logits(self, source: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        return tf.cast(self.model(source, inputs), tf.float32)

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The translation of each test sentence."""
        return translate(self.begin, self.questions.of(data), self.data["subword_model"], self.kind)

    def made_questions(self, data: Mapping[str, np.ndarray]) -> list[tuple[np.ndarray, tf.Tensor]]:
        """The test sentences, as `translate` takes them."""
        asked = questions(share(padded(data["test_source"]), self.worker), self.kind)
        return [(chosen, self.on_device(source)) for chosen, source in asked]

    def begin(self, source: tf.Tensor) -> Search:
        """The search for the translations of sentences [B, S]."""
        most = longest(source.shape[1])
        with tf.device(self.device):
            memory = self.graph_encode(source)
            beams = tensorflow_search.begin(memory, self.hyper.beam_size, most, 0 if self.kind == "cpu" else most)
        return Search(self, memory, beams)

    def _graph_encode(self, source: tf.Tensor) -> Memory:
        return self.model.encode(source, None)

    def _graph_advance(self, memory: Memory, beams: Beams) -> Beams:
        return tensorflow_search.advance(self.model, memory, beams, self.hyper, CHECKED[self.kind])

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, the optimizers' moments and the step."""
        return tensorflow_shared.state_dict(self.model, self.optimizers, self.scaler, self.step)

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework; without moments they start at zero."""
        self.step = tensorflow_shared.load_state_dict(self.model, self.optimizers, self.scaler, state)
        self.batches = None

    def on_device(self, values: np.ndarray) -> tf.Tensor:
        """The values as a tensor."""
        with tf.device(self.device):
            return tf.constant(values)


class Search:
    """See `search.Search`."""

    def __init__(self, made: TensorFlowTranslator, memory: Memory, beams: Beams) -> None:
        self.made, self.memory, self.beams = made, memory, beams

    def advance(self) -> None:
        """Lengthen all hypotheses by CHECKED subwords."""
        with tf.device(self.made.device):
            self.beams = self.made.graph_advance(self.memory, self.beams)

    def done(self) -> np.ndarray:
        """Which of the sentences are done, bool [B]; waits for the device."""
        done: np.ndarray = self.beams.done.numpy()
        return done

    def results(self) -> tuple[np.ndarray, np.ndarray]:
        """The translations so far [B, L], and how long they are [B]."""
        rows, counts = tensorflow_search.results(self.beams)
        return rows.numpy(), counts.numpy()

    def keep(self, sentences: np.ndarray) -> None:
        """Go on with these sentences alone, int32 [b]."""
        with tf.device(self.made.device):
            chosen = tf.constant(sentences, tf.int32)
            self.beams, self.memory = tensorflow_search.only(self.beams, self.memory, chosen)


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TensorFlowTranslator:
    """The implementation, traced and warmed up on made-up sentences of each length; its state is that of the seed."""
    keep_freed_memory()
    hyper = Hyperparameters.of(hyperparameters)
    made = TensorFlowTranslator(hyper, data, seed, device)
    made_up = np.full((hyper.global_batch_size, BUCKETS[-1]), 5, np.int32)
    made.keep(made_up, made_up)
    for length in BUCKETS if device.kind == "gpu" else BUCKETS[1:2]:
        made.train_step(Batch(np.arange(hyper.global_batch_size), length, length), 0.0)
        made.begin(made.on_device(np.full((TOGETHER[device.kind], length), 5, np.int32))).advance()
    made.load_state_dict({**initial_parameters(hyper, vocabulary(data), seed), "step": np.array(0)})
    return made
