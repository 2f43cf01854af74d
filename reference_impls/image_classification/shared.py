"""What both frameworks share: initial parameters, data order, augmentation and schedules, in numpy.

Everything is a function of the seed and of the step, so a checkpoint needs no random state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from reference_impls.recipe import Recipe

CENTRE, SPREAD = 120.0, 64.0  # of CIFAR-10's bytes; a fixed affine map, not a statistic of the training data
WHITEN_IMAGES = 5000
FP16_LOSS_SCALE = 128.0
Images = TypeVar("Images", bound=Any)  # a framework's
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
    eval_shift_fraction: float  # of the test images, the least certain, that are also seen shifted by one pixel

    def learning_rate(self, epoch: float) -> float:
        """The factor on the learning rates: linear to `opt_end_learning_rate` over the epochs of `epoch_sizes`."""
        return (
            max(1 - epoch / len(self.epoch_sizes), 0.0) * (1 - self.opt_end_learning_rate) + self.opt_end_learning_rate
        )

    def whiten_learning_rate(self, epoch: float) -> float:
        """The factor for the whitening layer's bias, which is frozen after `whiten_bias_epochs`."""
        return max(1 - epoch / self.whiten_bias_epochs, 0.0)


def initial_parameters(hyper: Hyperparameters, channels: int, classes: int, seed: int) -> dict[str, np.ndarray]:
    """Parameters and batch-norm statistics by name: convolutions [out, in, height, width], head [classes, width].

    The first channels of each 3x3 convolution pass their input through (a partial identity); the head has unit
    deviation. `whiten_weight` is zero until `whitening` has seen training data.
    """
    random = np.random.default_rng([seed, _INIT_STREAM])
    fan = 4 * channels
    parameters = {
        "whiten_weight": np.zeros((2 * fan, channels, 2, 2)),
        "whiten_bias": random.uniform(-1, 1, 2 * fan) / np.sqrt(fan),
    }
    inputs = 2 * fan
    for i, width in enumerate(np.repeat(hyper.widths, 2)):
        weight = random.uniform(-1, 1, (width, inputs, 3, 3)) / np.sqrt(9 * inputs)
        passed = np.arange(min(inputs, width))
        weight[passed] = 0
        weight[passed, passed, 1, 1] = 1
        parameters[f"conv{i}_weight"] = weight
        parameters[f"norm{i}_bias"] = np.zeros(width)
        parameters[f"norm{i}_mean"] = np.zeros(width)
        parameters[f"norm{i}_variance"] = np.ones(width)
        inputs = width
    head = random.uniform(-1, 1, (classes, inputs))
    parameters["head_weight"] = head / head.std()
    return {name: value.astype(np.float32) for name, value in parameters.items()}


def whitening(images: np.ndarray) -> np.ndarray:
    """The whitening layer's weights [8 C, C, 2, 2] from training images float32 [N, H, W, C] (airbench94)."""
    patches = np.lib.stride_tricks.sliding_window_view(images, (2, 2), (1, 2))
    flat = patches.reshape(-1, 4 * images.shape[-1]).astype(np.float64)
    values, vectors = np.linalg.eigh(flat.T @ flat / len(flat))
    filters = (vectors / np.sqrt(values + 5e-4)).T.reshape(-1, images.shape[-1], 2, 2)
    return np.concatenate([filters, -filters]).astype(np.float32)


@dataclass(frozen=True)
class Batch:
    """Images float32 [B, S, S, C] and labels int64 [B] of one step; `epoch` is the position in epochs before it."""

    images: np.ndarray
    labels: np.ndarray
    epoch: float


class Batches:
    """The training batches of one seed, in order, from any step on. Incomplete batches are left out."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, hyper: Hyperparameters, seed: int) -> None:
        self.images, self.labels, self.hyper, self.seed = np.array(images), np.array(labels), hyper, seed
        self.steps_per_epoch = len(images) // hyper.global_batch_size
        self._flipped = np.random.default_rng([seed, _FLIP_STREAM]).random(len(images)) < 0.5
        self._source = np.pad(np.arange(images.shape[1]), hyper.translate, "reflect")

    def whitening_images(self) -> np.ndarray:
        """The first training images, normalised."""
        return normalise(self.images[:WHITEN_IMAGES], self.hyper)

    def iterate(self, step: int) -> Iterator[Batch]:
        """Batches without end, from `step` on."""
        while True:
            epoch, within = divmod(step, self.steps_per_epoch)
            random = np.random.default_rng([self.seed, epoch])
            order = random.permutation(len(self.images))
            shifts = random.integers(0, 2 * self.hyper.translate + 1, (2, len(self.images)))
            for first in range(within, self.steps_per_epoch):
                chosen = order[first * self.hyper.global_batch_size :][: self.hyper.global_batch_size]
                yield self._batch(chosen, shifts[:, chosen], epoch, step)
                step += 1

    def _batch(self, chosen: np.ndarray, shifts: np.ndarray, epoch: int, step: int) -> Batch:
        side = np.arange(self.images.shape[1])
        rows, columns = self._source[shifts[:, :, None] + side]
        if self.hyper.flip:
            mirrored = self._flipped[chosen] ^ bool(epoch % 2)
            columns[mirrored] = columns[mirrored, ::-1]
        pixels = self.images[chosen[:, None, None], rows[:, :, None], columns[:, None, :]]
        size = self.hyper.epoch_sizes[min(epoch, len(self.hyper.epoch_sizes) - 1)]
        images = shrink(normalise(pixels, self.hyper), size)
        return Batch(images, self.labels[chosen].astype(np.int64), step / self.steps_per_epoch)


def classify(
    logits: Callable[[Images], np.ndarray],
    part: Callable[[Images, np.ndarray, np.ndarray], Images],
    images: Images,
    hyper: Hyperparameters,
) -> np.ndarray:
    """The classes [N] of N images of `images.shape[2]` pixels each way, by `logits` of images.

    For the images with the smallest margin between the two best classes, half of the weight goes to two views shifted
    by one pixel along a diagonal (airbench94 does so for all). `part(images, chosen, pixels)` is the images `chosen`,
    made of their rows and columns `pixels`.
    """
    scores = logits(images)
    probabilities = np.exp(scores - scores.max(1, keepdims=True))
    best = np.sort(probabilities / probabilities.sum(1, keepdims=True), 1)
    unsure = np.argsort(best[:, -1] - best[:, -2], kind="stable")[: int(hyper.eval_shift_fraction * len(scores))]
    if len(unsure):
        pixels = np.pad(np.arange(images.shape[2]), 1, "reflect")
        shifted = logits(part(images, unsure, pixels[:-2])) + logits(part(images, unsure, pixels[2:]))
        scores[unsure] = scores[unsure] / 2 + shifted / 4
    classes: np.ndarray = scores.argmax(1)
    return classes


def normalise(pixels: np.ndarray, hyper: Hyperparameters) -> np.ndarray:
    """Bytes to float32 around zero."""
    return pixels.astype(np.float32) * np.float32(255 / hyper.pixel_range / SPREAD) - np.float32(CENTRE / SPREAD)


def shrink(images: np.ndarray, size: int) -> np.ndarray:
    """Images [B, S, S, C] reduced to [B, size, size, C] by area averaging."""
    batch, side, _, channels = images.shape
    if size == side:
        return images
    edges = np.arange(size + 1) * side / size
    pixels = np.arange(side)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    average = (np.clip(overlap, 0, None) * size / side).astype(np.float32)
    rows = np.matmul(average, images.reshape(batch, side, side * channels))
    both: np.ndarray = np.matmul(average, rows.reshape(batch * size, side, channels))
    return both.reshape(batch, size, size, channels)
