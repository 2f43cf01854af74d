"""Image classification in TensorFlow: the twin of `torch.py`, line by line. States keep PyTorch's names and layout.

`pilot` and `full` have another model: `tensorflow_resnet.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import tensorflow as tf

from reference_impls.evaluation_cache import EvaluationCache
from reference_impls.image_classification.shared import (
    CLASSES,
    WHITEN_EPSILON,
    WHITEN_IMAGES,
    Draw,
    Draws,
    Hyperparameters,
    area_average,
    initial_parameters,
    scale_and_offset,
)
from reference_impls.image_classification.tensorflow_network import Network
from reference_impls.image_classification.tensorflow_resnet import TensorFlowResNet
from reference_impls.image_classification.tensorflow_resnet import build as build_resnet
from reference_impls.shares import part, require, share
from reference_impls.tensorflow_optimizers import SGD, GradScaler, Muon
from reference_impls.tensorflow_shared import TensorFlowTrainer, device_name, dtype, from_torch, to_torch, torch_name
from reference_impls.tensorflow_workers import Workers
from suite.harness.implementation import Device, TrainStats

ACCELERATORS = 1024
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
SHARED_BY = ("norm_batch_size",)
EVAL_BATCH = 500


def seen(
    images: tf.Tensor, labels: tf.Tensor, drawn: tf.Tensor, size: int, hyper: Hyperparameters
) -> tuple[tf.Tensor, tf.Tensor]:
    """A step's images float32 [B, size, size, C], cropped, mirrored and made smaller, and their labels [B]."""
    chosen, down, right, mirrored = tf.unstack(drawn)
    side = images.shape[1]
    pixels = tf.range(side) - hyper.translate
    rows, columns = (reflected(shift[:, None] + pixels, side) for shift in (down, right))
    columns = tf.where(mirrored[:, None] > 0, columns[:, ::-1], columns)
    places = (chosen[:, None, None] * side + rows[:, :, None]) * side + columns[:, None, :]
    cropped = normalised(tf.gather(tf.reshape(images, (-1, images.shape[-1])), places), hyper)
    if size < side:
        average = tf.constant(area_average(side, size))
        cropped = tf.einsum("pi,bijc,qj->bpqc", average, cropped, average)
    return cropped, tf.gather(labels, chosen)


def reflected(positions: tf.Tensor, side: int) -> tf.Tensor:
    """The positions, with those outside 0 to `side` - 1 reflected at the border."""
    return side - 1 - tf.abs(side - 1 - tf.abs(positions))


def normalised(pixels: tf.Tensor, hyper: Hyperparameters) -> tf.Tensor:
    """Bytes to float32 around zero."""
    scale, offset = scale_and_offset(hyper)
    return tf.cast(pixels, tf.float32) * scale + offset


def whitening(images: tf.Tensor) -> tf.Tensor:
    """The whitening layer's weights [2, 2, C, 8 C] from training images float32 [N, S, S, C]; see `torch.whitening`."""
    count, side, _, channels = images.shape
    corners = [images[:, y : side - 1 + y, x : side - 1 + x] for y in (0, 1) for x in (0, 1)]
    patches = tf.reshape(tf.stack(corners, -1), (count, -1, 4 * channels))
    products = tf.matmul(patches, patches, transpose_a=True)
    with tf.device("CPU:0"):  # a GPU would load its solver library on the clock
        summed = tf.reduce_sum(tf.cast(products, tf.float64), 0)
        values, vectors = tf.linalg.eigh(summed / (count * patches.shape[1]))
        filters = tf.transpose(vectors / tf.sqrt(values + WHITEN_EPSILON))
        signs = tf.sign(tf.linalg.matvec(filters, tf.sqrt(tf.range(1, 4 * channels + 1, dtype=tf.float64))))
        filters *= signs[:, None]
        both = tf.reshape(tf.concat([filters, -filters], 0), (-1, channels, 2, 2))
        return tf.cast(tf.transpose(both, (2, 3, 1, 0)), tf.float32)


class TensorFlowImageClassifier(TensorFlowTrainer[Hyperparameters, Draw]):
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        require(device, hyper.global_batch_size, "images")
        self.hyper, self.data, self.worker = hyper, data, device
        self.workers = Workers(device)
        self.device, self.dtype = device_name(device), dtype(device)
        shape = data["train_images"].shape
        self.draws = Draws(len(data["train_images"]), hyper, seed)
        self.test_images = EvaluationCache(lambda data: self.images(share(data["test_images"], device)))
        decay = hyper.opt_weight_decay * hyper.global_batch_size
        of_bias, of_head = decay / hyper.bias_learning_rate, decay / hyper.head_learning_rate
        with tf.device(self.device):
            self.model, self.averaged = (Network(shape[-1], hyper, self.workers, device) for _ in range(2))
            for model in (self.model, self.averaged):
                model(tf.zeros((1, *shape[1:])), training=False)
            self.averaged.trainable = False
            named = {v.path: v for v in self.model.trainable_variables}
            self.muon = Muon(
                [v for path, v in named.items() if "/conv" in path],
                momentum=hyper.muon_momentum,
                ns_steps=hyper.muon_steps,
                dtype=self.dtype,
                unit_norm=True,
            )
            norms = [v for path, v in named.items() if "/norm" in path]
            self.sgd = [
                SGD([self.model.head.kernel], hyper.opt_momentum, of_head),
                SGD(norms, hyper.opt_momentum, of_bias),
                SGD([self.model.whiten.bias], hyper.opt_momentum, of_bias),
            ]
            self.scaler = GradScaler(device.precision == "fp16")
            self.training_images = tf.zeros(shape, tf.uint8)
            self.training_labels = tf.zeros(shape[:1], tf.uint8)
        self.optimizers: tuple[Muon | SGD, ...] = (self.muon, *self.sgd)
        self.on_gpu = device.kind == "gpu"
        alone = self.workers.size == 1  # XLA cannot send
        # With several workers, compiled apart from the step: uncompiled, TensorFlow gathers bytes only on the host
        self.seen = tf.function(partial(seen, hyper=hyper), jit_compile=self.on_gpu, autograph=False)
        # `partial`: TensorFlow counts how often it traces a method of any object, and would warn in a second run
        self.graph_step = tf.function(partial(self._step), jit_compile=self.on_gpu and alone, autograph=False)
        # Uncompiled, with several workers, a convolution was given another's input (TensorFlow 2.21, an AVX-512 CPU)
        self.compiled = self.on_gpu or self.workers.size > 1
        self.batch_logits = tf.function(partial(self._batch_logits), jit_compile=self.compiled, autograph=False)
        parameters = initial_parameters(hyper, shape[-1], CLASSES, seed)
        self.load_state_dict({**parameters, "step": np.array(0)})

    def state_dict(self) -> dict[str, np.ndarray]:
        """See `TensorFlowTrainer`; the average of each weight is `average/<weight>`."""
        averaged = {f"average/{torch_name(v.path)}": to_torch(v.path, v.numpy()) for v in self.averaged.weights}
        return {**super().state_dict(), **averaged}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """See `TensorFlowTrainer`; an average that the state lacks starts at the weight."""
        super().load_state_dict(state)
        for variable in self.averaged.weights:
            name = torch_name(variable.path)
            variable.assign(from_torch(variable.path, state.get(f"average/{name}", state[name])))

    def train_until(self, samples: int) -> TrainStats:
        """See `Trainer`; the loss of a step is a sum, which is made a mean here."""
        stats = super().train_until(samples)
        return replace(stats, loss=cast(float, stats.loss) / self.hyper.global_batch_size)

    def feed(self) -> Iterator[Draw]:
        """The draws. Images are copied to the device once; at step 0 the first of them set the whitening layer."""
        with tf.device(self.device):
            if self.data:
                self.training_images = tf.constant(self.data["train_images"])
                self.training_labels = tf.constant(self.data["train_labels"])
                self.data = {}
            if self.step == 0:
                first = normalised(self.training_images[:WHITEN_IMAGES], self.hyper)
                self.model.whiten.kernel.assign(whitening(first))
                self.averaged.whiten.kernel.assign(self.model.whiten.kernel)
        return self.draws.iterate(self.step)

    def train_step(self, draw: Draw) -> tf.Tensor:
        """Take one step; return the loss summed over the batch, which with several workers is the mean of theirs."""
        whiten_rate = self.hyper.whiten_learning_rate(draw.epoch)
        rates = np.array([self.hyper.learning_rate(draw.epoch), whiten_rate], np.float32)
        with tf.device(self.device):
            data = (self.training_images, self.training_labels)
            return self.graph_step(
                *data, tf.constant(share(draw.drawn, self.worker, 1)), tf.constant(rates), draw.size, whiten_rate > 0
            )

    def _step(
        self, images: tf.Tensor, labels: tf.Tensor, drawn: tf.Tensor, rates: tf.Tensor, size: int, whiten: bool
    ) -> tf.Tensor:
        hyper = self.hyper
        optimizers = self.optimizers if whiten else self.optimizers[:-1]
        biases = hyper.bias_learning_rate
        learning_rates = [hyper.muon_learning_rate * rates[0], hyper.head_learning_rate * rates[0], biases * rates[0]]
        learning_rates.append(biases * rates[1])
        variables = [variable for optimizer in optimizers for variable in optimizer.variables]
        with tf.GradientTape() as tape:
            x, chosen = self.seen(images, labels, drawn, size)
            logits = self.model(x, training=True)
            smooth = hyper.label_smoothing
            targets = tf.one_hot(chosen, CLASSES) * (1 - smooth) + smooth / CLASSES
            loss = tf.reduce_sum(tf.nn.softmax_cross_entropy_with_logits(targets, logits)) * self.workers.size
            scaled = self.scaler.scale(loss)

        def apply_muon(gradients: Sequence[tf.Tensor]) -> None:
            self.muon.apply(gradients, learning_rates[0])

        def apply_sgd(gradients: Sequence[tf.Tensor]) -> None:
            remaining = iter(gradients)
            for optimizer, rate in zip(optimizers[1:], learning_rates[1:], strict=False):
                optimizer.apply([next(remaining) for _ in optimizer.variables], rate)

        gradients, split = self.workers.averaged(tape.gradient(scaled, variables)), len(self.muon.variables)
        self.scaler.step((gradients[:split], apply_muon), (gradients[split:], apply_sgd))
        for average, weight in zip(self.averaged.weights, self.model.weights, strict=True):
            average.assign(hyper.ema_decay * average + (1 - hyper.ema_decay) * weight)
        return loss

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The class of each test image; see `torch.py`."""
        images = self.test_images.of(data)
        with tf.device(self.device):
            scores = self.logits(images)
            best = tf.math.top_k(tf.nn.softmax(scores), 2).values
            unsure = self.unsure((best[:, 0] - best[:, 1]).numpy())
            if len(unsure):
                again = tf.gather(images, unsure)
                wider = tf.pad(again, [[0, 0], [1, 1], [1, 1], [0, 0]], "REFLECT")
                shifted = [self.both_ways(each, self.logits(each)) for each in (wider[:, :-2, :-2], wider[:, 2:, 2:])]
                mixed = self.both_ways(again, tf.gather(scores, unsure)) / 2 + sum(shifted) / 4
                scores = tf.tensor_scatter_nd_update(scores, unsure[:, None], mixed)
            classes: list[int] = tf.argmax(scores, 1).numpy().tolist()
        return classes

    def unsure(self, margins: np.ndarray) -> np.ndarray:
        """Which of the worker's images, which have these margins, are among the least certain of all workers'."""
        margins = self.workers.gathered(margins)
        own = part(len(margins), self.worker)
        count = int(self.hyper.eval_shift_fraction * len(margins))
        chosen = np.argsort(margins, kind="stable")[:count]
        mine: np.ndarray = chosen[(chosen >= own.start) & (chosen < own.stop)] - own.start
        return mine

    def both_ways(self, images: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """With `flip` the mean logits of images [N, S, S, C] and of their mirror images, else the given logits."""
        return (logits + self.logits(images[:, :, ::-1])) / 2 if self.hyper.flip else logits

    def logits(self, images: tf.Tensor) -> tf.Tensor:
        """Logits float32 [N, classes] of images [N, S, S, C]."""
        with tf.device(self.device):
            count = len(images)
            if self.compiled:  # all batches of one shape
                missing = -count % EVAL_BATCH if count else EVAL_BATCH
                images = tf.pad(images, [[0, missing], [0, 0], [0, 0], [0, 0]])
            firsts = range(0, max(1, len(images)), EVAL_BATCH)  # a worker's share of a few images may be none
            parts = [self.batch_logits(images[first : first + EVAL_BATCH]) for first in firsts]
            return tf.concat(parts, 0)[:count]

    def _batch_logits(self, images: tf.Tensor) -> tf.Tensor:
        return self.averaged(images, training=False)

    def images(self, pixels: np.ndarray) -> tf.Tensor:
        """Bytes [N, S, S, C] as images on the device."""
        with tf.device(self.device):
            return tf.cast(normalised(tf.constant(pixels), self.hyper), self.dtype)

    def warm_up(self) -> None:
        """Trace and compile steps and evaluations of every size, and the gathering of margins, on blank images."""
        for size, epoch in self.hyper.kinds_of_step():
            self.train_step(Draw(np.zeros((4, self.hyper.global_batch_size), np.int32), size, epoch))
        self.logits(self.images(np.zeros((EVAL_BATCH, *self.training_images.shape[1:]), np.uint8)))
        if not self.compiled:  # for the last batch, of as many images as are left
            few = tf.TensorSpec((None, *self.training_images.shape[1:]), self.dtype)
            self.batch_logits.get_concrete_function(few)
        self.unsure(np.zeros(1, np.float32))


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TensorFlowImageClassifier | TensorFlowResNet:
    """The implementation, traced and warmed up on blank images of each size; its state comes from `seed`.

    A recipe that names a model gets the ResNet.
    """
    if "model" in hyperparameters:
        return build_resnet(hyperparameters, data, seed, device)
    return TensorFlowImageClassifier(Hyperparameters.of(hyperparameters), data, seed, device).warmed_up()
