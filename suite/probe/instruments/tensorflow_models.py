"""Models of keras.applications as workloads."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from suite.errors import UserError
from suite.harness.implementation import Device
from suite.probe.instruments.tensorflow_counting import device_name, number_type
from suite.probe.record import DEFAULT_BATCH, DEFAULT_SIZE, Conditions
from suite.probe.workload import LEARNING_RATE, MOMENTUM, Workload, check_logits, spelled

POLICIES = {"fp32": "float32", "bf16": "mixed_bfloat16", "fp16": "mixed_float16"}


class Model(Workload):
    """A model of keras.applications, trained by SGD with momentum, or inferring; the twin of `torch_models.Model`."""

    def __init__(self, network: Any, conditions: Conditions, device: Device, seed: int) -> None:
        self.training, self.samples = conditions.mode == "train", conditions.batch or DEFAULT_BATCH
        self.network, self.device = network, device_name(device)
        random = np.random.default_rng(seed)
        height, width, channels = picture(network)
        size = conditions.size or DEFAULT_SIZE
        with tf.device(self.device):
            shape = (self.samples, height or size, width or size, channels)
            self.images = tf.constant(random.standard_normal(shape, np.float32))
            self.labels = tf.zeros(self.samples, tf.int64)  # the class that every network has
            if self.training:
                check_logits(each.shape for each in tf.nest.flatten(network(self.images[:1])))  # and make its variables
                self.optimizer = keras.optimizers.SGD(LEARNING_RATE, momentum=MOMENTUM)
                self.optimizer.build(network.trainable_variables)
        graph = tf.function(jit_compile=device.kind == "gpu")
        self.step = graph(self.train_step if self.training else self.infer)

    def run(self, steps: int) -> None:
        """See `Workload`."""
        with tf.device(self.device):
            for _ in range(steps):
                last = self.step(self.images, self.labels)
            last.numpy()

    def train_step(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Take one step of SGD and return its loss."""
        with tf.GradientTape() as tape:
            outputs = [tf.cast(each, tf.float32) for each in tf.nest.flatten(self.network(images, training=True))]
            losses = [tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits) for logits in outputs]
            loss = sum(map(tf.reduce_mean, losses[1:]), tf.reduce_mean(losses[0]))
        variables = self.network.trainable_variables
        self.optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    def infer(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """One forward pass."""
        return tf.reshape(tf.nest.flatten(self.network(images, training=False))[0], [-1])[0]


def picture(network: Any) -> tuple[int | None, int | None, int]:
    """Height, width and channels of what a network takes; height and width are None if any will do.

    Raises UserError if it takes something else than one picture.
    """
    try:
        shape = network.input_shape
    except (AttributeError, ValueError):  # a subclass, or layers in sequence that nobody has called
        return None, None, 3
    if not (isinstance(shape, tuple) and len(shape) == 4 and shape[3]):
        raise UserError(f"a model of pictures takes one of [batch, height, width, channels], and this one {shape}")
    return shape[1:]


def listed() -> list[str]:
    """The models of keras.applications, by their names."""
    return [name for name in vars(keras.applications) if name[0].isupper()]


def model(conditions: Conditions, device: Device, seed: int) -> Model:
    """See `Instruments.model`: keras.applications."""
    name = spelled(conditions.model, listed(), "keras.applications")
    number_type(device)
    options = {} if conditions.size is None else {"input_shape": (conditions.size, conditions.size, 3)}
    before = keras.config.dtype_policy()
    keras.utils.set_random_seed(seed)
    try:
        keras.config.set_dtype_policy(POLICIES[device.precision])
        with tf.device(device_name(device)):
            network = vars(keras.applications)[name](weights=None, classifier_activation=None, **options)
        made = Model(network, conditions, device, seed)
        made.run(1)
    except ValueError as error:
        raise UserError(f"{name} refuses size={conditions.size}: {str(error).splitlines()[0]}") from error
    finally:
        keras.config.set_dtype_policy(before)
    return made
