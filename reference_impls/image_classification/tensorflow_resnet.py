"""The ResNet of `resnet.py` in TensorFlow: the twin of `torch_resnet.py`, with torchvision's network in Keras."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from reference_impls.image_classification.pictures import DEVIATION, MEAN, Training, evaluation
from reference_impls.image_classification.resnet import EPSILON, STEM, Hyperparameters, initial_parameters, stages
from reference_impls.shares import part, require
from reference_impls.tensorflow_optimizers import LARS, GradScaler
from reference_impls.tensorflow_shared import Dense, TensorFlowTrainer, device_name, policy
from reference_impls.tensorflow_workers import Workers
from suite.harness.implementation import Device


class BatchNorm(keras.layers.Layer):
    """Batch normalisation that adds each group's statistics, times `share`, to the running ones.

    The running variance is unbiased, as in PyTorch (Keras's is biased).
    """

    def __init__(self, share: float, name: str, dtype: keras.DTypePolicy) -> None:
        super().__init__(name=name, dtype=dtype)
        self.share = share

    def build(self, shape: tuple[int, ...]) -> None:
        """Make the variables."""
        width = {"shape": shape[-1:], "autocast": False}
        self.weight = self.add_weight(name="weight", initializer="ones", **width)
        self.bias = self.add_weight(name="bias", initializer="zeros", **width)
        self.mean = self.add_weight(name="running_mean", initializer="zeros", trainable=False, **width)
        self.variance = self.add_weight(name="running_var", initializer="ones", trainable=False, **width)

    def call(self, x: tf.Tensor, training: bool) -> tf.Tensor:
        """[B, h, w, C] to the same."""
        y, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x,
            scale=self.weight,
            offset=self.bias,
            mean=tf.zeros([0]) if training else self.mean,
            variance=tf.zeros([0]) if training else self.variance,
            epsilon=EPSILON,
            is_training=training,
        )
        if training:
            self.mean.assign_add(self.share * mean)
            self.variance.assign_add(self.share * variance)
        return y


def convolution(width: int, side: int, stride: int, name: str, dtype: keras.DTypePolicy) -> keras.layers.Conv2D:
    """A convolution without bias that expects `padded` images."""
    return keras.layers.Conv2D(width, side, stride, "valid", use_bias=False, name=name, dtype=dtype)


def padded(x: tf.Tensor, by: int) -> tf.Tensor:
    """`x` [B, h, w, C] with `by` zeros on all four sides, as PyTorch pads whatever the stride."""
    return tf.pad(x, [[0, 0], [by, by], [by, by], [0, 0]])


class Bottleneck(keras.layers.Layer):
    """A residual block of three convolutions, the second of which is 3x3 and has the stride."""

    def __init__(
        self, inner: int, outputs: int, stride: int, widens: bool, share: float, dtype: keras.DTypePolicy, name: str
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        self.conv1, self.conv2, self.conv3 = (
            convolution(*form, f"conv{i}", dtype)
            for i, form in enumerate(((inner, 1, 1), (inner, 3, stride), (outputs, 1, 1)), 1)
        )
        self.bn1, self.bn2, self.bn3 = (BatchNorm(share, f"bn{i}", dtype) for i in (1, 2, 3))
        self.shortcut: list[Any] = []
        if widens:
            self.shortcut = [
                convolution(outputs, 1, stride, "downsample.0", dtype),
                BatchNorm(share, "downsample.1", dtype),
            ]

    def call(self, x: tf.Tensor, training: bool) -> tf.Tensor:
        """[B, h, w, outputs] of `x` [B, H, W, inputs]."""
        y = tf.nn.relu(self.bn1(self.conv1(x), training=training))
        y = tf.nn.relu(self.bn2(self.conv2(padded(y, 1)), training=training))
        y = self.bn3(self.conv3(y), training=training)
        if self.shortcut:
            convolve, norm = self.shortcut
            x = norm(convolve(x), training=training)
        return tf.nn.relu(x + y)


class ResNet(keras.Model):
    """torchvision.models.resnet.ResNet with `Bottleneck` blocks."""

    def __init__(self, hyper: Hyperparameters, classes: int, share: float, dtype: keras.DTypePolicy) -> None:
        super().__init__(name="resnet", dtype=dtype)
        self.conv1, self.bn1 = convolution(STEM, 7, 2, "conv1", dtype), BatchNorm(share, "bn1", dtype)
        self.blocks = [
            Bottleneck(inner, outputs, stride if i == 0 else 1, i == 0, share, dtype, f"layer{stage}.{i}")
            for stage, (count, inner, outputs, stride) in enumerate(stages(hyper), 1)
            for i in range(count)
        ]
        self.fc = Dense(classes, name="fc", dtype=dtype)

    def call(self, images: tf.Tensor, training: bool) -> tf.Tensor:
        """Logits float32 [B, classes] of images uint8 [B, S, S, 3]."""
        x = tf.cast((tf.cast(images, tf.float32) - MEAN) / DEVIATION, self.compute_dtype)
        x = tf.nn.relu(self.bn1(self.conv1(padded(x, 3)), training=training))
        x = tf.nn.max_pool2d(padded(x, 1), 3, 2, "VALID")  # nothing is below zero
        for block in self.blocks:
            x = block(x, training=training)
        return tf.cast(self.fc(tf.reduce_mean(x, (1, 2))), tf.float32)


Group = tuple[np.ndarray, np.ndarray]  # images, labels


class TensorFlowResNet(TensorFlowTrainer[Hyperparameters, Iterator[Group]]):
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        require(device, hyper.groups, "groups of norm_batch_size images")
        self.hyper, self.data, self.seed, self.worker = hyper, data, seed, device
        self.workers = Workers(device)
        self.device = device_name(device)
        self.groups = len(range(hyper.groups)[part(hyper.groups, device)])
        shape = (hyper.norm_batch_size, hyper.image_size, hyper.image_size, 3)
        share = (1 - hyper.norm_momentum) * self.workers.size / hyper.groups
        with tf.device(self.device):
            self.model = ResNet(hyper, len(data["classes"]), share, policy(device))
            self.model(tf.zeros((1, *shape[1:]), tf.uint8), training=False)
            self.trained = self.model.trainable_variables
            self.lars = LARS(self.trained, hyper.opt_momentum, hyper.opt_weight_decay, hyper.lars_trust)
            self.summed = [tf.Variable(tf.zeros(v.shape), trainable=False) for v in self.trained]
            self.scaler = GradScaler(device.precision == "fp16")
        self.optimizers = (self.lars,)
        gpu = device.kind == "gpu"
        images, labels = tf.TensorSpec(shape, tf.uint8), tf.TensorSpec(shape[:1], tf.int64)
        self.begin = tf.function(self._begin, autograph=False)
        self.add = tf.function(self._add, (images, labels), jit_compile=gpu, autograph=False)
        self.end = tf.function(self._end, (tf.TensorSpec((), tf.float32),), autograph=False)
        self.classify = tf.function(self._classify, (images,), jit_compile=gpu, autograph=False)
        self.load_state_dict({**initial_parameters(hyper, len(data["classes"]), seed), "step": np.array(0)})

    def feed(self) -> Iterator[Iterator[Group]]:
        """For each step the iterator over the worker's next groups, which are decoded ahead."""
        return repeat(Training(self.data, self.hyper, self.seed, self.worker).iterate(self.step))

    def train_step(self, groups: Iterator[Group]) -> tf.Tensor:
        """Take one step on the worker's next groups; return the mean loss over its images."""
        with tf.device(self.device):
            self.begin()
            total = tf.add_n([self.add(*map(tf.constant, next(groups))) for _ in range(self.groups)])
            self.end(tf.constant(self.hyper.rate(self.step), tf.float32))
        return total

    @property
    def statistics(self) -> Sequence[Any]:
        """Batch normalisation's running statistics."""
        return [v for v in self.model.non_trainable_variables if "/running_" in v.path]

    def _begin(self) -> None:
        for each in self.summed:
            each.assign(tf.zeros_like(each))
        for each in self.statistics:
            each.assign(self.hyper.norm_momentum * each)

    def _add(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Add up a group's gradients; return what it adds to the mean loss over the worker's part of a batch."""
        smooth, classes = self.hyper.label_smoothing, len(self.data["classes"])
        with tf.GradientTape() as tape:
            logits = self.model(images, training=True)
            targets = tf.one_hot(labels, classes) * (1 - smooth) + smooth / classes
            summed = tf.reduce_sum(tf.nn.softmax_cross_entropy_with_logits(targets, logits))
            loss = summed / (self.hyper.global_batch_size / self.workers.size)
            scaled = self.scaler.scale(loss)
        for each, gradient in zip(self.summed, tape.gradient(scaled, self.trained), strict=True):
            each.assign_add(gradient)
        return loss

    def _end(self, rate: tf.Tensor) -> None:
        """Average over the workers, and take the step."""
        if self.workers.size > 1:
            for each, mean in zip(self.statistics, self.workers.averaged(self.statistics), strict=True):
                each.assign(mean)
        self.scaler.step((self.workers.averaged(self.summed), lambda gradients: self.lars.apply(gradients, rate)))

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The classes of the worker's share of the test images, which are decoded anew each time."""
        blocks = evaluation(data, self.hyper, self.worker)
        with tf.device(self.device):
            found = [self.classify(tf.constant(images))[:count] for images, count in blocks]
        return [number for each in found for number in each.numpy().tolist()]

    def _classify(self, images: tf.Tensor) -> tf.Tensor:
        """The classes [B] of images [B, S, S, 3]."""
        return tf.argmax(self.logits(images), 1)

    def logits(self, images: tf.Tensor) -> tf.Tensor:
        """Logits float32 [B, classes] of images uint8 [B, S, S, 3]."""
        return self.model(images, training=False)

    def warm_up(self) -> None:
        """Trace and compile steps and evaluations, on blank images."""
        side = self.hyper.image_size
        images = np.zeros((self.hyper.norm_batch_size, side, side, 3), np.uint8)
        self.train_step(iter([(images, np.zeros(len(images), np.int64))] * self.groups))
        with tf.device(self.device):
            self.classify(tf.constant(images))


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TensorFlowResNet:
    """The implementation, traced and warmed up on blank images; its state comes from `seed`."""
    return TensorFlowResNet(Hyperparameters.of(hyperparameters), data, seed, device).warmed_up()
