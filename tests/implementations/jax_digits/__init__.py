"""Image classification in JAX, for `mini`: the recipe, the draws and the names of states are the reference's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reference_impls.image_classification.shared import (
    WHITEN_IMAGES,
    Draw,
    Draws,
    Hyperparameters,
    initial_parameters,
    scale_and_offset,
)
from suite.errors import UserError
from suite.harness.implementation import Device, TrainStats

from .network import STATISTICS, Arrays, logits, whitening
from .optimizers import muon, sgd

ACCELERATORS = 1
CLASSES = 10
EVAL_BATCH = 500
DTYPES = {"fp32": jnp.float32, "bf16": jnp.bfloat16}
MOMENTUM, AVERAGE = "momentum_buffer/", "average/"


class JaxImageClassifier:
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        # An example of `mini`: the resizing and the shifted views that CIFAR-10's recipe asks for are left out.
        if hyper.eval_shift_fraction or {*hyper.epoch_sizes} != {data["train_images"].shape[1]}:
            raise UserError(
                "the JAX example trains scale=mini alone: training images smaller than they are "
                "(hyperparameters.epoch_sizes) and test images seen shifted (eval_shift_fraction) are left out"
            )
        self.hyper, self.data, self.dtype = hyper, data, DTYPES[device.precision]
        self.device = jax.devices(device.kind)[0]
        self.draws = Draws(len(data["train_images"]), hyper, seed)
        self.steps: Iterator[Draw] | None = None
        self.images = self.labels = jnp.zeros(0)
        self.load_state_dict(
            initial_parameters(hyper, data["train_images"].shape[-1], CLASSES, seed) | {"step": np.array(0)}
        )

    def train_until(self, samples: int) -> TrainStats:
        """Take whole steps until `samples` samples have been seen."""
        if self.data:  # on the clock, and once
            self.images = jax.device_put(self.data["train_images"], self.device)
            self.labels = jax.device_put(self.data["train_labels"].astype(np.int32), self.device)
            self.data = {}
        if self.steps is None:
            self.steps = self.draws.iterate(self.step)
            if self.step == 0:
                first = np.asarray(normalised(self.images[:WHITEN_IMAGES], self.hyper))
                self.state["whiten.weight"] = jax.device_put(whitening(first), self.device)
                self.state[f"{AVERAGE}whiten.weight"] = self.state["whiten.weight"]
        size = self.hyper.global_batch_size
        while True:
            loss = self.train_step(next(self.steps))
            self.step += 1
            if self.step * size >= samples:
                return TrainStats(self.step * size, float(loss) / size)

    def train_step(self, draw: Draw) -> jax.Array:
        """One step; the loss summed over the batch."""
        rates = np.array(
            [self.hyper.learning_rate(draw.epoch), self.hyper.whiten_learning_rate(draw.epoch)], np.float32
        )
        self.state, loss = step(
            self.state, self.images, self.labels, draw.drawn, rates, self.hyper, self.dtype, bool(rates[1] > 0)
        )
        return loss

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The class of each test image."""
        pixels = data["test_images"]
        padded = np.concatenate([pixels, np.zeros((-len(pixels) % EVAL_BATCH, *pixels.shape[1:]), pixels.dtype)])
        parts = [
            predicted(self.state, part, self.hyper, self.dtype) for part in np.split(padded, len(padded) // EVAL_BATCH)
        ]
        classes: list[int] = np.concatenate(parts)[: len(pixels)].tolist()
        return classes

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters and statistics, their averages, momenta and the step."""
        return {name: np.array(value) for name, value in self.state.items()} | {"step": np.array(self.step)}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state, also of the reference; momenta that it lacks are zero, averages the values."""
        held = {name: value for name, value in state.items() if name != "step"}
        values = {name: value for name, value in held.items() if "/" not in name}
        momenta = {MOMENTUM + name: np.zeros_like(value) for name, value in values.items() if not fixed(name)}
        averages = {AVERAGE + name: value for name, value in values.items()}
        whole = momenta | averages | held
        self.state = {name: jax.device_put(np.array(value), self.device) for name, value in whole.items()}
        self.step, self.steps = int(state["step"]), None


def fixed(name: str) -> bool:
    """Whether a value is not trained by gradients."""
    return name == "whiten.weight" or name.endswith(STATISTICS)


@partial(jax.jit, static_argnames=("hyper", "dtype", "whiten"))
def step(
    state: Arrays,
    images: jax.Array,
    labels: jax.Array,
    drawn: jax.Array,
    rates: jax.Array,
    hyper: Hyperparameters,
    dtype: Any,
    whiten: bool,
) -> tuple[Arrays, jax.Array]:
    """The state after a step, and its loss; `whiten` says whether the whitening layer's bias is trained still."""
    moments = {name.removeprefix(MOMENTUM): value for name, value in state.items() if name.startswith(MOMENTUM)}
    held = {name: value for name, value in state.items() if "/" not in name}
    trained = {name: held[name] for name in moments if whiten or name != "whiten.bias"}
    x, chosen = seen(images, labels, drawn, hyper)

    def loss_of(parameters: Arrays) -> tuple[jax.Array, Arrays]:
        scores, statistics = logits(held | parameters, x, dtype, hyper, training=True)
        smooth = hyper.label_smoothing
        targets = jax.nn.one_hot(chosen, CLASSES) * (1 - smooth) + smooth / CLASSES
        return -(targets * jax.nn.log_softmax(scores)).sum(), statistics

    (loss, statistics), gradients = jax.value_and_grad(loss_of, has_aux=True)(trained)
    after = dict(state) | statistics
    decay = hyper.opt_weight_decay * hyper.global_batch_size
    for name, gradient in gradients.items():
        parameter, moment = held[name], moments[name]
        if ".conv" in name:
            rate = hyper.muon_learning_rate * rates[0]
            new = muon(parameter, gradient, moment, rate, hyper.muon_momentum, hyper.muon_steps, dtype)
        else:
            full = hyper.head_learning_rate if name == "head.weight" else hyper.bias_learning_rate
            rate = full * rates[1 if name == "whiten.bias" else 0]
            new = sgd(parameter, gradient, moment, rate, hyper.opt_momentum, decay / full)
        after[name], after[MOMENTUM + name] = new
    kept = hyper.ema_decay
    return after | {AVERAGE + name: kept * state[AVERAGE + name] + (1 - kept) * after[name] for name in held}, loss


def seen(images: jax.Array, labels: jax.Array, drawn: jax.Array, hyper: Hyperparameters) -> tuple[jax.Array, jax.Array]:
    """What a step sees: images float32 [B, C, S, S], cropped at a shift and mirrored, and labels [B]."""
    chosen, down, right, mirrored = drawn
    side = images.shape[1]
    pixels = jnp.arange(side) - hyper.translate
    rows, columns = (side - 1 - jnp.abs(side - 1 - jnp.abs(shift[:, None] + pixels)) for shift in (down, right))
    columns = jnp.where(mirrored[:, None] > 0, columns[:, ::-1], columns)
    cropped = images[chosen[:, None, None], rows[:, :, None], columns[:, None, :]]
    return normalised(cropped, hyper), labels[chosen]


def normalised(pixels: jax.Array, hyper: Hyperparameters) -> jax.Array:
    """Bytes [B, S, S, C] to float32 [B, C, S, S] around zero."""
    scale, offset = scale_and_offset(hyper)
    return pixels.astype(jnp.float32).transpose(0, 3, 1, 2) * scale + offset


@partial(jax.jit, static_argnames=("hyper", "dtype"))
def predicted(state: Arrays, pixels: jax.Array, hyper: Hyperparameters, dtype: Any) -> jax.Array:
    """The class of each image of bytes [B, S, S, C], by the averaged parameters."""
    averages = {name.removeprefix(AVERAGE): value for name, value in state.items() if name.startswith(AVERAGE)}
    return logits(averages, normalised(pixels, hyper), dtype, hyper, training=False)[0].argmax(1)


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> JaxImageClassifier:
    """The implementation, compiled on blank images; its state is that of the seed."""
    hyper = Hyperparameters.of(hyperparameters)
    made = JaxImageClassifier(hyper, data, seed, device)
    initial = made.state_dict()
    shape = data["train_images"].shape
    blank = np.zeros(shape, np.uint8), np.zeros(shape[0], np.int32)
    made.images, made.labels = jax.device_put(blank, made.device)  # where the data will lie: else it compiles again
    for size, epoch in hyper.kinds_of_step():
        made.train_step(Draw(np.zeros((4, hyper.global_batch_size), np.int32), size, epoch))
    made.predict({"test_images": np.zeros((EVAL_BATCH, *shape[1:]), np.uint8)})
    made.load_state_dict(initial)
    return made
