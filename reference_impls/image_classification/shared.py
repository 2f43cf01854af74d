"""What both frameworks share: initial parameters, what is drawn for each step, and schedules, in numpy.

Everything is a function of the seed and of the step, so a checkpoint needs no random state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reference_impls.recipe import Recipe
from reference_impls.shares import steps

CENTRE, SPREAD = 120.0, 64.0  # of CIFAR-10's bytes; a fixed affine map, not a statistic of the training data
CLASSES = 10
WHITEN_IMAGES = 5000
WHITEN_EPSILON = 5e-4
EPSILON = 1e-5  # of batch normalisation
CPUINFO = Path("/proc/cpuinfo")  # Linux's; TensorFlow does not tell what a CPU has, PyTorch not before 2.11
AMX = CPUINFO.exists() and "amx_bf16" in CPUINFO.read_text().split()
_INIT_STREAM, _FLIP_STREAM = 1_000_001, 1_000_002  # random streams apart from those of the epochs


@dataclass(frozen=True)
class Hyperparameters(Recipe):
    """The fixed recipe; names follow MLPerf's log keys where there is one."""

    global_batch_size: int
    epoch_sizes: tuple[int, ...]  # side of the training images in each epoch; the last one holds from there on
    pixel_range: float  # largest pixel value; images are scaled to the range of bytes
    translate: int  # random shift in pixels, up to this much each way, borders reflected
    flip: bool  # mirror a random half of the images, the other half in the next epoch
    widths: tuple[int, ...]  # channels of each pair of 3x3 convolutions
    label_smoothing: float
    muon_learning_rate: float
    muon_momentum: float
    muon_steps: int
    bias_learning_rate: float
    head_learning_rate: float
    opt_momentum: float
    opt_weight_decay: float  # per sample, of biases and head
    opt_end_learning_rate: float  # as a fraction of the first
    whiten_bias_epochs: int
    norm_momentum: float
    ema_samples: float  # time constant of the exponential moving average of the weights, which evaluations see
    eval_shift_fraction: float  # of the test images, the least certain, also seen mirrored, and shifted by one pixel

    def size(self, epoch: int) -> int:
        """The side of the training images in an epoch."""
        return self.epoch_sizes[min(epoch, len(self.epoch_sizes) - 1)]

    def learning_rate(self, epoch: float) -> float:
        """The factor on the learning rates: linear to `opt_end_learning_rate` over the epochs of `epoch_sizes`."""
        return (
            max(1 - epoch / len(self.epoch_sizes), 0.0) * (1 - self.opt_end_learning_rate) + self.opt_end_learning_rate
        )

    @property
    def ema_decay(self) -> float:
        """What a step leaves of the average before it: less in larger batches (Busbridge et al. 2023)."""
        return max(1 - self.global_batch_size / self.ema_samples, 0.0)

    def whiten_learning_rate(self, epoch: float) -> float:
        """The factor for the whitening layer's bias, which is frozen after `whiten_bias_epochs`: 0 from there on."""
        return max(1 - epoch / self.whiten_bias_epochs, 0.0) if self.whiten_bias_epochs else 0.0

    def kinds_of_step(self) -> list[tuple[int, float]]:
        """An image size and an epoch for each kind of step: every size, with and without training the whitening's bias.

        They are in the order of a run: if the one without the bias is compiled first, two workers diverge.
        """
        epochs = range(max(len(self.epoch_sizes), self.whiten_bias_epochs) + 1)
        kinds = {(self.size(epoch), self.whiten_learning_rate(epoch) > 0): epoch for epoch in epochs}
        return [(size, float(epoch)) for (size, _), epoch in kinds.items()]


def initial_parameters(hyper: Hyperparameters, channels: int, classes: int, seed: int) -> dict[str, np.ndarray]:
    """Parameters and batch-norm statistics by PyTorch's names, in its layout.

    The first channels of each 3x3 convolution pass their input through (a partial identity); the head has unit
    deviation. `whiten.weight` is zero until the training data has been seen.
    """
    random = np.random.default_rng([seed, _INIT_STREAM])
    fan = 4 * channels
    parameters = {
        "whiten.weight": np.zeros((2 * fan, channels, 2, 2)),
        "whiten.bias": random.uniform(-1, 1, 2 * fan) / np.sqrt(fan),
    }
    inputs = 2 * fan
    for i, width in enumerate(np.repeat(hyper.widths, 2)):
        block, place = f"blocks.{i // 2}", i % 2 + 1
        weight = random.uniform(-1, 1, (width, inputs, 3, 3)) / np.sqrt(9 * inputs)
        passed = np.arange(min(inputs, width))
        weight[passed] = 0
        weight[passed, passed, 1, 1] = 1
        parameters[f"{block}.conv{place}.weight"] = weight
        parameters[f"{block}.norm{place}.bias"] = np.zeros(width)
        parameters[f"{block}.norm{place}.running_mean"] = np.zeros(width)
        parameters[f"{block}.norm{place}.running_var"] = np.ones(width)
        inputs = width
    head = random.uniform(-1, 1, (classes, inputs))
    parameters["head.weight"] = head / head.std()
    return {name: value.astype(np.float32) for name, value in parameters.items()}


@dataclass(frozen=True)
class Draw:
    """What the host sends for a step; all else is on the device.

    `drawn` int32 [4, B]: which image, its shift down and to the right from 0 to twice `translate`, and whether it is
    mirrored. `size` is the side of the images, `epoch` the position in epochs before the step.
    """

    drawn: np.ndarray
    size: int
    epoch: float


class Draws:
    """The steps of one seed on `count` images, in order, from any step on. Incomplete batches are left out."""

    def __init__(self, count: int, hyper: Hyperparameters, seed: int) -> None:
        self.count, self.hyper, self.seed = count, hyper, seed
        self.steps_per_epoch = steps(count, hyper.global_batch_size, "images")
        self._mirrored = np.random.default_rng([seed, _FLIP_STREAM]).random(count) < 0.5

    def iterate(self, step: int) -> Iterator[Draw]:
        """Draws without end, from `step` on."""
        batch = self.hyper.global_batch_size
        while True:
            epoch, within = divmod(step, self.steps_per_epoch)
            random = np.random.default_rng([self.seed, epoch])
            order = random.permutation(self.count)
            shifts = random.integers(0, 2 * self.hyper.translate + 1, (2, self.count))
            mirrored = self.hyper.flip & (self._mirrored ^ bool(epoch % 2))
            rows = np.stack([order, *shifts[:, order], mirrored[order]]).astype(np.int32)
            for first in range(within, self.steps_per_epoch):
                chosen = np.ascontiguousarray(rows[:, first * batch : (first + 1) * batch])
                yield Draw(chosen, self.hyper.size(epoch), step / self.steps_per_epoch)
                step += 1


def scale_and_offset(hyper: Hyperparameters) -> tuple[float, float]:
    """The factor and the offset that bring pixels around zero."""
    return 255 / hyper.pixel_range / SPREAD, -CENTRE / SPREAD


def area_average(side: int, size: int) -> np.ndarray:
    """The matrix float32 [size, side] that averages `side` pixels over `size` equal parts of them."""
    edges = np.arange(size + 1) * side / size
    pixels = np.arange(side)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    average: np.ndarray = np.clip(overlap, 0, None) * size / side
    return average.astype(np.float32)
