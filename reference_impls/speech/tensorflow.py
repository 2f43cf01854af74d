"""Speech recognition in TensorFlow: the twin of `torch.py`. States are alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from reference_impls.evaluation_cache import EvaluationCache
from reference_impls.shares import require, share, steps
from reference_impls.speech import shared
from reference_impls.speech.shared import EVAL_BATCH, SUBSAMPLING, Batch, Batches, Hyperparameters
from reference_impls.speech.tensorflow_network import Recordings, SpeechNetwork, masked, output_frames
from reference_impls.tensorflow_optimizers import AdamW, GradScaler, clipped
from reference_impls.tensorflow_shared import TensorFlowTrainer, device_name, dropout_seed, policy
from reference_impls.tensorflow_workers import Workers
from suite.harness.implementation import Device

ACCELERATORS = 1024
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
SHARED_BY = ()


def ctc_loss(logits: tf.Tensor, labels: tf.SparseTensor, fits: tf.Tensor, frames: tf.Tensor) -> tf.Tensor:
    """CTC's negative log-likelihood [B]; zero, without gradient, where a transcript does not fit its frames."""
    loss = tf.nn.ctc_loss(labels, logits, None, frames, logits_time_major=False, blank_index=0)
    return tf.where(fits, loss, 0.0)


def sparse(labels: np.ndarray, lengths: np.ndarray, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Transcripts [B, L] of `lengths` [B] as indices and values of a SparseTensor, and whether each fits its `frames`.

    A repeated label needs a blank before it. A transcript that does not fit is replaced by its first label.
    """
    place = np.arange(labels.shape[1])
    repeats = ((labels[:, 1:] == labels[:, :-1]) & (place[1:] < lengths[:, None])).sum(1)
    fits = lengths + repeats <= frames
    indices = np.argwhere(place < np.where(fits, lengths, 1)[:, None])
    return indices, labels[tuple(indices.T)], fits


class TensorFlowSpeech(TensorFlowTrainer[Hyperparameters, Batch]):
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        require(device, hyper.global_batch_size, "recordings")
        steps(len(data["train_frames"]), hyper.global_batch_size, "recordings")
        self.hyper, self.data, self.seed, self.worker = hyper, data, seed, device
        self.workers = Workers(device)
        self.device, on_gpu = device_name(device), device.kind == "gpu"
        self.multiple = shared.COMPILED if on_gpu else shared.NOT_COMPILED
        self.units = bytes(data["units"]).decode("ascii").split("\n")
        shape = data["train_features"].shape
        self.labels = np.ones((len(data["train_frames"]), 1), np.int32)
        self.lengths = np.ones(len(data["train_frames"]), np.int32)
        with tf.device(self.device):
            self.recordings = Recordings(shape, len(data["train_frames"]))
            self.warps = tf.constant(shared.warps(shape[1], hyper))
            self.model = SpeechNetwork(hyper, len(self.units) + 1, policy(device))
            self.model(tf.zeros((1, 64, shape[1])), tf.constant([8]))
            self.optimizer = AdamW(
                hyper.opt_base_learning_rate,
                beta_1=hyper.opt_adamw_beta_1,
                beta_2=hyper.opt_adamw_beta_2,
                epsilon=hyper.opt_adamw_epsilon,
                weight_decay=hyper.opt_weight_decay,
            )
            self.optimizer.build(self.model.trainable_variables)
            self.scaler = GradScaler(device.precision == "fp16")
        whole, vector = tf.TensorSpec((None,), tf.int64), tf.TensorSpec((None,), tf.int32)
        ranges, seed_spec = tf.TensorSpec((None, None, 2), tf.int32), tf.TensorSpec((2,), tf.int32)
        drawn = [whole, tf.TensorSpec((None,)), vector, whole, ranges, ranges, vector, seed_spec]
        self.training_logits, self.update = self._training_logits, self._update
        if on_gpu:  # XLA compiles what comes before and after CTC's loss, which it does not support
            self.training_logits = tf.function(self._training_logits, drawn, jit_compile=True, autograph=False)
            self.update = tf.function(self._update, jit_compile=True, autograph=False)
        self.logits = tf.function(
            self._logits, [tf.TensorSpec((None, None, shape[1])), vector], jit_compile=on_gpu, autograph=False
        )
        indices, fits = tf.TensorSpec((None, 2), tf.int64), tf.TensorSpec((None,), tf.bool)
        self.graph_step = tf.function(
            self._graph_step, [drawn, indices, vector, fits, tf.TensorSpec(())], autograph=False
        )
        self.optimizers = (self.optimizer,)
        self.filled = False
        self.evaluation = EvaluationCache(self.evaluation_batches)
        initial = shared.initial_parameters(hyper, shape[1], len(self.units) + 1, seed)
        self.load_state_dict({**initial, "step": np.array(0)})

    def feed(self) -> Iterator[Batch]:
        """The batches; their recordings are copied to the device once."""
        if not self.filled:
            with tf.device(self.device):
                self.recordings.fill(np.array(self.data["train_features"]), np.array(self.data["train_frames"]))
            self.lengths = np.array(self.data["train_lengths"], np.int32)
            self.labels = shared.rows(self.data["train_labels"], self.lengths)
            self.filled = True
        frames, mels = np.array(self.data["train_frames"]), self.recordings.features.shape[1]
        return Batches(frames, mels, self.hyper, self.seed, self.multiple).iterate(self.step)

    def train_step(self, batch: Batch) -> tf.Tensor:
        """Take one step; return the loss, CTC's negative log-likelihood of a transcript, mean over the batch."""
        time, dropped = np.arange(batch.time, dtype=np.int32), dropout_seed(self.seed, self.step, self.worker.rank)
        parts = (batch.recordings, batch.speed, batch.frames, batch.warp, batch.bands, batch.spans)
        recordings, speed, frames, *others = (share(part, self.worker) for part in parts)
        transcripts = sparse(self.labels[recordings], self.lengths[recordings], shared.output_frames(frames))
        drawn = (recordings, speed, frames, *others, time, dropped)
        with tf.device(self.device):
            rate = tf.constant(self.hyper.learning_rate(batch.epoch), tf.float32)
            return self.graph_step([*map(tf.constant, drawn)], *map(tf.constant, transcripts), rate)

    def _graph_step(
        self, drawn: Sequence[tf.Tensor], indices: tf.Tensor, values: tf.Tensor, fits: tf.Tensor, rate: tf.Tensor
    ) -> tf.Tensor:
        frames = drawn[2]
        with tf.GradientTape() as tape:
            logits = self.training_logits(*drawn)
            shape = tf.shape(logits, tf.int64)
            labels = tf.SparseTensor(indices, values, shape[:2])
            losses = ctc_loss(logits, labels, fits, output_frames(frames))
            loss = tf.reduce_sum(losses) / (self.hyper.global_batch_size / self.workers.size)
            scaled = self.scaler.scale(loss)
        self.update(self.workers.averaged(tape.gradient(scaled, self.model.trainable_variables)), rate)
        return loss

    def _training_logits(
        self,
        recordings: tf.Tensor,
        speed: tf.Tensor,
        frames: tf.Tensor,
        warp: tf.Tensor,
        bands: tf.Tensor,
        spans: tf.Tensor,
        time: tf.Tensor,
        seed: tf.Tensor,
    ) -> tf.Tensor:
        """Logits float32 [B, T / 8, labels] of a `Batch`, whose recordings are augmented; `time` is 0 to T - 1."""
        features = tf.matmul(self.recordings(recordings, speed, frames, time), tf.gather(self.warps, warp))
        return self.model(masked(features, bands, spans), output_frames(frames), seed)

    def _update(self, gradients: Sequence[tf.Tensor], rate: tf.Tensor) -> None:
        """One step of AdamW with gradient clipping."""
        variables = self.model.trainable_variables

        def apply(true: Sequence[tf.Tensor]) -> None:
            self.optimizer.learning_rate.assign(rate)
            self.optimizer.apply(clipped(true, self.hyper.opt_gradient_clip_norm), variables)

        self.scaler.step((gradients, apply))

    def _logits(self, features: tf.Tensor, frames: tf.Tensor) -> tf.Tensor:
        """Logits float32 [B, T / 8, labels] of features float32 [B, T, mels] with `frames` [B] of output."""
        return self.model(features, frames)

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The words of each test recording."""
        batches = self.evaluation.of(data)
        if not batches:
            return []
        with tf.device(self.device):
            best = [tf.argmax(self.logits(features, frames), 2, tf.int32) for _, features, frames in batches]
            labels = tf.concat(best, 1).numpy()
        layout = [(chosen, features.shape[1]) for chosen, features, _ in batches]
        return shared.texts(labels, layout, share(data["test_frames"], self.worker), self.units)

    def evaluation_batches(self, data: Mapping[str, np.ndarray]) -> list[tuple[np.ndarray, tf.Tensor, tf.Tensor]]:
        """Batches of the test recordings: numbers [B], features [B, T, mels] and output frames [B]."""
        given, lengths = shared.evaluated(data, self.worker)
        batches = []
        with tf.device(self.device):
            recordings = Recordings(given.shape, len(lengths))
            recordings.fill(np.array(given), lengths)
            for chosen, time in shared.evaluation_batches(lengths, EVAL_BATCH, self.multiple):
                frames, speed = tf.constant(lengths[chosen]), tf.ones(len(chosen))
                features = recordings(tf.constant(chosen), speed, frames, tf.range(time))
                batches.append((chosen, features, output_frames(frames)))
        return batches

    def warm_up(self) -> None:
        """Trace and compile steps and evaluations of every length, on made-up recordings."""
        for batch in shared.made_up_batches(self.hyper, self.multiple):
            self.train_step(batch)
            with tf.device(self.device):
                test = tf.zeros((EVAL_BATCH, batch.time, self.recordings.features.shape[1]))
                self.logits(test, tf.fill((EVAL_BATCH,), batch.time // SUBSAMPLING))


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TensorFlowSpeech:
    """The implementation, traced, compiled and warmed up on made-up recordings; its state comes from `seed`."""
    return TensorFlowSpeech(Hyperparameters.of(hyperparameters), data, seed, device).warmed_up()
