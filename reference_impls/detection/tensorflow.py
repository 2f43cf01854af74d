"""Object detection in TensorFlow: the twin of `torch.py`, line by line. States keep PyTorch's names and layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import tensorflow as tf

from reference_impls import tensorflow_shared
from reference_impls.detection.shared import (
    ADAM_EPSILON,
    BETA_1,
    Draw,
    Hyperparameters,
    draws,
    initial_parameters,
    records,
    whole_batches,
)
from reference_impls.detection.tensorflow_boxes import (
    cells_of,
    decoded,
    loss_of,
    moved_boxes,
    moved_planes,
    normalised,
)
from reference_impls.detection.tensorflow_network import Detector
from reference_impls.evaluation_cache import EvaluationCache
from reference_impls.shares import part, require, share, steps
from reference_impls.tensorflow_optimizers import AdamW, GradScaler
from reference_impls.tensorflow_shared import TensorFlowTrainer, device_name
from reference_impls.tensorflow_workers import Workers
from suite.harness.implementation import Device

ACCELERATORS = 1024
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
SHARED_BY = ()
Arrays = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, boxes, classes


class TensorFlowDetector(TensorFlowTrainer[Hyperparameters, tuple[Arrays, Draw]]):
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        require(device, hyper.global_batch_size, "images")
        steps(len(data["train_images"]), hyper.global_batch_size, "images")
        self.hyper, self.data, self.seed, self.worker = hyper, data, seed, device
        self.workers = Workers(device)
        self.device, self.dtype = device_name(device), tensorflow_shared.dtype(device)
        _, height, width, self.channels = data["train_images"].shape
        self.frame = np.array([width, height], np.float32)
        with tf.device(self.device):
            self.model = Detector(hyper, self.workers, tensorflow_shared.policy(device))
            cells = (1, height // hyper.stride, width // hyper.stride, self.channels * hyper.stride**2)
            self.model(tf.zeros(cells, self.dtype))
            self.optimizer = AdamW(
                beta_1=BETA_1,
                beta_2=hyper.opt_adamw_beta_2,
                epsilon=ADAM_EPSILON,
                weight_decay=hyper.opt_weight_decay,
            )
            self.optimizer.exclude_from_weight_decay([v for v in self.model.trainable_variables if len(v.shape) != 4])
            self.optimizer.build(self.model.trainable_variables)
            self.scaler = GradScaler(device.precision == "fp16")
        jit = device.kind == "gpu"
        alone = self.workers.size == 1  # XLA cannot send
        self.graph_step = tf.function(self._graph_step, jit_compile=jit and alone, autograph=False)
        # With several workers, compiled apart from the step: uncompiled, TensorFlow gathers bytes only on the host
        self.seen = tf.function(self._seen, jit_compile=jit, autograph=False)
        self.detect = tf.function(self._detect, jit_compile=jit, autograph=False)
        self.arrays: Arrays | None = None
        self.optimizers = (self.optimizer,)
        self.evaluation = EvaluationCache(self.batches)
        self.load_state_dict({**initial_parameters(hyper, self.channels, seed), "step": np.array(0)})

    def feed(self) -> Iterator[tuple[Arrays, Draw]]:
        """The training arrays, copied to the device once, and the draws of each step."""
        if self.arrays is None:
            self.arrays = self.resident(*(self.data[f"train_{name}"] for name in ("images", "boxes", "classes")))
        images = len(self.data["train_images"])
        return zip(repeat(self.arrays), draws(images, self.channels, self.hyper, self.seed, self.step), strict=False)

    def resident(self, images: np.ndarray, boxes: np.ndarray, classes: np.ndarray) -> Arrays:
        """The training arrays on the device, images as planes [N, C, H, W]."""
        with tf.device(self.device):
            pixels = tf.transpose(tf.constant(images), (0, 3, 1, 2))
            return pixels, tf.constant(boxes), tf.constant(classes.astype(np.int64))

    def train_step(self, fed: tuple[Arrays, Draw]) -> tf.Tensor:
        """Take one step; return the loss per object."""
        arrays, draw = fed
        rate = self.hyper.learning_rate(self.step * self.hyper.global_batch_size)
        with tf.device(self.device):
            drawn = (tf.constant(share(array, self.worker)) for array in vars(draw).values())
            return self.graph_step(*arrays, *drawn, tf.constant(rate))

    def _graph_step(
        self,
        images: tf.Tensor,
        boxes: tf.Tensor,
        classes: tf.Tensor,
        chosen: tf.Tensor,
        scale: tf.Tensor,
        shift: tf.Tensor,
        light: tf.Tensor,
        rate: tf.Tensor,
    ) -> tf.Tensor:
        """One step on images [N, C, H, W], boxes [N, L, 4] and classes [N, L], chosen and augmented by a `Draw`."""
        cells = self.seen(images, chosen, scale, shift, light)
        boxes, classes = moved_boxes(tf.gather(boxes, chosen), tf.gather(classes, chosen), scale, shift, self.frame)
        objects = self.workers.mean(tf.reduce_sum(tf.cast(classes >= 0, tf.float32)))
        with tf.GradientTape() as tape:
            heat, sides = self.model(cells, training=True)
            loss = loss_of(heat, sides, boxes, classes, self.hyper) / objects
            scaled = self.scaler.scale(loss)
        variables = self.model.trainable_variables
        self.optimizer.learning_rate = rate
        gradients = self.workers.averaged(tape.gradient(scaled, variables))
        self.scaler.step((gradients, lambda found: self.optimizer.apply(found, variables)))
        return loss

    def _seen(
        self, images: tf.Tensor, chosen: tf.Tensor, scale: tf.Tensor, shift: tf.Tensor, light: tf.Tensor
    ) -> tf.Tensor:
        """The cells of the chosen images, augmented as a `Draw` says."""
        contrast, offset = tf.unstack(light[..., None, None], axis=1)
        planes = moved_planes(normalised(tf.gather(images, chosen)), scale, shift) * (1 + contrast) + offset
        return tf.cast(cells_of(planes, self.hyper.stride), self.dtype)

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The COCO result records of each test image."""
        own, batches = part(len(data["test_images"]), self.worker), self.evaluation.of(data)
        if not batches:
            return []
        with tf.device(self.device):
            found = tf.concat([self.detect(cells) for cells in batches], 0)
            return records(found[: own.stop - own.start].numpy(), self.hyper, own.start)

    def batches(self, data: Mapping[str, np.ndarray]) -> list[tf.Tensor]:
        """The test images as cells."""
        with tf.device(self.device):
            own = share(data["test_images"], self.worker)
            planes = (tf.transpose(tf.constant(i), (0, 3, 1, 2)) for i in whole_batches(own))
            return [tf.cast(cells_of(normalised(p), self.hyper.stride), self.dtype) for p in planes]

    def _detect(self, cells: tf.Tensor) -> tf.Tensor:
        """Candidates [B, K, 7], as `records` reads them."""
        return decoded(*self.outputs(cells), self.hyper)

    def outputs(self, cells: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Scores [B, h, w, classes] and sides [B, h, w, 4] of cells."""
        heat, sides = self.model(cells, training=False)
        return tf.sigmoid(heat), sides

    def warm_up(self) -> None:
        """Trace and compile steps and evaluations, on blank images without objects."""
        names = ("train_images", "train_boxes", "train_classes")
        images, boxes, classes = (np.zeros(self.data[name].shape, self.data[name].dtype) for name in names)
        first = next(draws(len(images), self.channels, self.hyper, self.seed, 0))
        self.train_step((self.resident(images, boxes, classes - 1), first))
        self.detect(self.batches({"test_images": images[: self.worker.world_size]})[0])


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TensorFlowDetector:
    """The implementation, traced and warmed up on blank images without objects; its state comes from `seed`."""
    return TensorFlowDetector(Hyperparameters.of(hyperparameters), data, seed, device).warmed_up()
