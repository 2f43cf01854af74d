"""Language modelling in TensorFlow: the twin of `torch.py`, function by function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from reference_impls.evaluation_cache import EvaluationCache
from reference_impls.language_modeling.shared import (
    AUDITED,
    EVAL_SEGMENT,
    STREAMS,
    Batch,
    Batches,
    Hyperparameters,
    initial_carry,
    initial_parameters,
    is_matrix,
    made_up_text,
    nothing_audited,
    places,
    predictions,
    rare_words,
    rooms,
    segments,
)
from reference_impls.language_modeling.tensorflow_gpt import TensorFlowGPT
from reference_impls.language_modeling.tensorflow_gpt import build as build_gpt
from reference_impls.language_modeling.tensorflow_network import Carry, LanguageModel, Rare
from reference_impls.shares import require, share, steps
from reference_impls.tensorflow_optimizers import AdamW, GradScaler, Muon
from reference_impls.tensorflow_shared import (
    TensorFlowTrainer,
    device_name,
    dropout_seed,
    dtype,
    policy,
    torch_name,
)
from reference_impls.tensorflow_workers import Workers
from suite.harness.implementation import Device

ACCELERATORS = 1024
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
SHARED_BY = ("segment_length", "sequence_length")


class TensorFlowLanguageModel(TensorFlowTrainer[Hyperparameters, Batch]):
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        require(device, hyper.streams, "streams")
        steps(len(data["train_tokens"]), hyper.global_batch_size, "words")
        self.hyper, self.data, self.seed, self.worker = hyper, data, seed, device
        self.workers = Workers(device)
        self.streams = len(share(np.arange(hyper.streams), device))
        self.device = device_name(device)
        vocabulary, length = len(data["vocabulary"]), len(data["train_tokens"])
        self.tails = hyper.tails(vocabulary)
        # for the rare words' places; on a CPU, where a graph takes any number, exactly as many as there are
        gpu = device.kind == "gpu"
        sizes = (self.streams * hyper.segment_length, EVAL_SEGMENT)
        self.rooms = {n: rooms(hyper, vocabulary, n) if gpu else [] for n in sizes}
        with tf.device(self.device):
            self.carry = self.variables(initial_carry(hyper, self.streams))
            audited = nothing_audited(hyper, len(data["audit_positions"]))
            self.test_carry = self.variables(initial_carry(hyper, 1) | audited)
            self.text = tf.Variable(tf.zeros(length, tf.int64), trainable=False)  # filled by the first step
            self.places = tf.constant(share(places(length, hyper), device, 1))
            self.model = LanguageModel(hyper, vocabulary, policy(device))
            self.model(tf.zeros((hyper.segment_length, self.streams), tf.int64), self.no_rare(), self.carry)
            trained = self.model.trainable_variables
            self.matrices = [v for v in trained if is_matrix(torch_name(v.path))]
            self.others = [v for v in trained if not is_matrix(torch_name(v.path))]
            self.muon = Muon(self.matrices, hyper.muon_momentum, hyper.muon_steps, dtype(device))
            betas = {"beta_1": hyper.opt_adam_beta_1, "beta_2": hyper.opt_adam_beta_2}
            self.adam = AdamW(0.0, weight_decay=0.0, epsilon=hyper.opt_adam_epsilon, **betas)
            self.adam.build(self.others)
            self.scaler = GradScaler(device.precision == "fp16")
        self.optimizers = (self.muon, self.adam)
        self.segments = EvaluationCache(self.made_segments)
        rare = tuple(tf.TensorSpec([None], tf.int32) for _ in self.no_rare())
        step = (tf.TensorSpec((), tf.int64), rare, rare, tf.TensorSpec((2,), tf.int32), tf.TensorSpec((), tf.float32))
        compiled = gpu and self.workers.size == 1  # XLA cannot send to other workers
        self.graph_step = tf.function(self._graph_step, step, jit_compile=compiled, autograph=False)
        words, audits = tf.TensorSpec((EVAL_SEGMENT, 1), tf.int64), (len(data["audit_positions"]),)
        segment = (words, words, rare, rare, tf.TensorSpec(audits, tf.int64), tf.TensorSpec(audits, tf.bool))
        self.evaluate = tf.function(self._evaluate, segment, jit_compile=gpu, autograph=False)
        self.distribution = tf.function(self._distribution, (), jit_compile=gpu, autograph=False)
        self.load_state_dict({**initial_parameters(hyper, vocabulary, seed), "step": np.array(0)})

    def feed(self) -> Iterator[Batch]:
        """Copy the text to the device; return the batches."""
        tokens = self.data["train_tokens"]
        self.text.assign(tokens.astype(np.int64))
        return Batches(tokens, self.hyper, self.seed).iterate(self.step)

    def train_step(self, batch: Batch) -> tf.Tensor:
        """Take one step; return the mean loss over the batch, in nats per word."""
        if batch.fresh:
            self.begin_anew(self.carry)
        factor, seed = self.hyper.learning_rate(self.step), dropout_seed(self.seed, self.step, self.worker.rank)
        with tf.device(self.device):
            rare = tuple(self.rare(share(array, self.worker, 1)) for array in (batch.words, batch.targets))
            begin = tf.constant(batch.begin, tf.int64)
            return self.graph_step(begin, *rare, tf.constant(seed), tf.constant(factor, tf.float32))

    def _graph_step(
        self, begin: tf.Tensor, rare_words: Rare, rare_targets: Rare, seed: tf.Tensor, factor: tf.Tensor
    ) -> tf.Tensor:
        hyper, split = self.hyper, len(self.matrices)
        weight = self.streams * self.workers.size / hyper.streams  # of the worker's mean in that over the batch
        read = tf.gather(self.text, (self.places + begin) % self.text.shape[0])
        with tf.GradientTape() as tape:
            x, pointed, after = self.model(read[:-1], rare_words, self.carry, seed)
            loss = -tf.reduce_mean(self.model.log_probabilities(x, pointed, read[1:], rare_targets)) * weight
            scaled = self.scaler.scale(loss)

        def apply_muon(gradients: Sequence[tf.Tensor]) -> None:
            self.muon.apply(gradients, hyper.muon_learning_rate * factor)

        def apply_adam(gradients: Sequence[tf.Tensor]) -> None:
            self.adam.learning_rate.assign(hyper.adam_learning_rate * factor)
            self.adam.apply(gradients, self.others)

        variables = [*self.matrices, *self.others]
        gradients = tape.gradient(scaled, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        gradients = self.workers.averaged(gradients)
        self.scaler.step((gradients[:split], apply_muon), (gradients[split:], apply_adam))
        self.take_over(self.carry, after)
        return loss

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The log-probabilities of the test text, read as one stream, and the audited distributions.

        Only the first worker reads it, since it is one stream.
        """
        if self.worker.rank > 0:
            return []
        log_probabilities, distributions = self.read_segments(self.segments.of(data))
        return predictions(log_probabilities, distributions, data["test_tokens"], self.data["audit_positions"])

    def read_segments(self, parts: Sequence[Sequence[Any]]) -> tuple[np.ndarray, np.ndarray]:
        """Log-probabilities float32 [segments, EVAL_SEGMENT], and the distributions [A, V] at the audited places."""
        self.begin_anew(self.test_carry)
        with tf.device(self.device):
            found = tf.stack([self.evaluate(*part) for part in parts])
            return found.numpy(), self.distribution().numpy()

    def _evaluate(
        self,
        words: tf.Tensor,
        targets: tf.Tensor,
        rare_words: Rare,
        rare_targets: Rare,
        at: tf.Tensor,
        here: tf.Tensor,
    ) -> tf.Tensor:
        """The log-probabilities [EVAL_SEGMENT] of a segment; what is audited in it is kept in the carry."""
        x, pointed, after = self.model(words, rare_words, self.test_carry)
        log_probabilities = self.model.log_probabilities(x, pointed, targets, rare_targets)[:, 0]
        for name, value in zip(AUDITED, (x, *pointed), strict=True):
            found = tf.gather(value[:, 0], at)
            choice = tf.reshape(here, (-1, *[1] * (found.shape.rank - 1)))
            after[name] = tf.where(choice, found, self.test_carry[name])
        self.take_over(self.test_carry, after)
        return log_probabilities

    def _distribution(self) -> tf.Tensor:
        """The log-probabilities float32 [A, V] of all words at the audited places."""
        x, where, chosen, left = (tf.convert_to_tensor(self.test_carry[name]) for name in AUDITED)
        return self.model.distribution(x, (where, chosen, left))

    def made_segments(self, data: Mapping[str, np.ndarray]) -> list[list[Any]]:
        """The segments of the test text, as `_evaluate` takes them."""
        parts = segments(data["test_tokens"], self.data["vocabulary"], self.data["audit_positions"])
        with tf.device(self.device):
            return [
                [
                    *(tf.constant(array) for array in (part.words, part.targets)),
                    *(self.rare(array) for array in (part.words, part.targets)),
                    *(tf.constant(array) for array in (part.at, part.here)),
                ]
                for part in parts
            ]

    def rare(self, words: np.ndarray) -> Rare:
        """The places of rare words, on the device; see `shared.rare_words`."""
        return tuple(tf.constant(array) for array in rare_words(words, self.tails, self.rooms[words.size]))

    def no_rare(self) -> Rare:
        """The same for a batch without such words."""
        return self.rare(np.zeros(self.streams * self.hyper.segment_length, np.int32))

    def variables(self, arrays: Mapping[str, np.ndarray]) -> Carry:
        """Variables on the device, initialised with the arrays."""
        return {name: tf.Variable(array, trainable=False) for name, array in arrays.items()}

    def begin_anew(self, carry: Carry) -> None:
        """Forget the text read so far."""
        for name, value in carry.items():
            value.assign(tf.fill(value.shape, tf.constant(-1 if name == "words" else 0, value.dtype)))

    def take_over(self, carry: Carry, after: Carry) -> None:
        """Keep what the next segment takes over."""
        for name, value in after.items():
            carry[name].assign(value)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, moments, what the layers carry along the text, and the step."""
        carry = {
            f"carry/{name}": self.workers.gathered(value.numpy(), STREAMS[name]) for name, value in self.carry.items()
        }
        return super().state_dict() | carry

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Load a state of either framework; moments that it lacks start at zero, and a carry starts anew."""
        super().load_state_dict(state)
        self.begin_anew(self.carry)
        for name, value in self.carry.items():
            if f"carry/{name}" in state:
                value.assign(share(state[f"carry/{name}"], self.worker, STREAMS[name]))

    def warm_up(self) -> None:
        """Trace and compile steps and evaluations, on a made-up text."""
        tokens = made_up_text(self.hyper, len(self.data["vocabulary"]))
        self.train_step(next(Batches(tokens, self.hyper, 0).iterate(0)))
        self.read_segments(self.made_segments({"test_tokens": tokens}))


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TensorFlowLanguageModel | TensorFlowGPT:
    """The implementation, traced and warmed up on made-up texts; its state comes from `seed`. See `torch.py`."""
    if "model" in hyperparameters:
        return build_gpt(hyperparameters, data, seed, device)
    return TensorFlowLanguageModel(Hyperparameters.of(hyperparameters), data, seed, device).warmed_up()
