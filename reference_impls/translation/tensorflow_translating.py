"""How a Transformer in TensorFlow translates, the twin of `torch_translating.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from reference_impls.evaluation_cache import EvaluationCache
from reference_impls.shares import share
from reference_impls.tensorflow_shared import TensorFlowTrainer, device_name, dtype, policy
from reference_impls.tensorflow_workers import Workers
from reference_impls.trainer import Fed, Hyper
from reference_impls.translation import tensorflow_search
from reference_impls.translation.search import longest, questions, together, translate
from reference_impls.translation.shared import CHECKED, Network, padded, vocabulary
from reference_impls.translation.tensorflow_network import Memory, Transformer
from reference_impls.translation.tensorflow_search import Beams
from suite.harness.implementation import Device


class Translator(TensorFlowTrainer[Hyper, Fed]):
    """The network on its device, and what it does with the sentences of the test."""

    def __init__(self, hyper: Network, data: Mapping[str, np.ndarray], device: Device) -> None:
        self.network, self.data, self.kind, self.worker = hyper, data, device.kind, device
        self.workers = Workers(device)
        self.device, self.dtype = device_name(device), dtype(device)
        with tf.device(self.device):
            self.model: Transformer = Transformer(hyper, vocabulary(data), policy(device))
            self.model.build((None, None))
        self.together = together(hyper, device)
        self.questions = EvaluationCache(self.made_questions)
        pairs, on_gpu = tf.TensorSpec((None, None), tf.int32), device.kind == "gpu"
        self.graph_logits = tf.function(self._graph_logits, (pairs, pairs), autograph=False)
        self.graph_encode = tf.function(self._graph_encode, (pairs,), autograph=False)
        search = None if on_gpu else tensorflow_search.signature(hyper, self.dtype)  # a GPU's has fixed shapes
        self.graph_advance = tf.function(self._graph_advance, search, jit_compile=on_gpu, autograph=False)

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
        asked = questions(share(padded(data["test_source"]), self.worker), self.together, self.kind)
        return [(chosen, self.on_device(source)) for chosen, source in asked]

    def begin(self, source: tf.Tensor) -> Search:
        """The search for the translations of sentences [B, S]."""
        most = longest(source.shape[1])
        with tf.device(self.device):
            memory = self.graph_encode(source)
            beams = tensorflow_search.begin(memory, self.network.beam_size, most, 0 if self.kind == "cpu" else most)
        return Search(self, memory, beams)

    def warm_up_search(self, lengths: Sequence[int]) -> None:
        """Trace and compile the search for the translations of sources of these lengths."""
        for length in lengths:
            self.begin(self.on_device(np.full((self.together, length), 5, np.int32))).advance()

    def _graph_encode(self, source: tf.Tensor) -> Memory:
        return self.model.encode(source, None)

    def _graph_advance(self, memory: Memory, beams: Beams) -> Beams:
        return tensorflow_search.advance(self.model, memory, beams, self.network, CHECKED[self.kind])

    def on_device(self, values: np.ndarray) -> tf.Tensor:
        """The values as a tensor."""
        with tf.device(self.device):
            return tf.constant(values)


class Search:
    """See `search.Search`."""

    def __init__(self, made: Translator[Any, Any], memory: Memory, beams: Beams) -> None:
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
        """Go on with these sentences alone, int64 [b]."""
        with tf.device(self.made.device):
            chosen = tf.constant(sentences, tf.int32)
            self.beams, self.memory = tensorflow_search.only(self.beams, self.memory, chosen)
