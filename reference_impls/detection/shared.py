"""What both frameworks share: hyperparameters and schedule, initial parameters, and each step's draws, in numpy.

Everything is a function of the seed and of the step, so a checkpoint needs no random state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from reference_impls.recipe import Recipe
from reference_impls.shares import steps

CENTRE, SPREAD = 128.0, 64.0  # of bytes; a fixed affine map, not a statistic of the training data
PRIOR = 0.1  # the heat that every cell starts with (CenterNet)
GAUSSIAN = 0.54  # radius of an object's heat as a fraction of its half side (TTFNet's alpha and beta)
VISIBLE = 0.25  # share of an object's area; with less left in the picture the object is dropped
EPSILON = 1e-5  # of batch norm
ADAM_EPSILON, BETA_1 = 1e-8, 0.9
EVAL_BATCH = 8
LOWEST_SCORE = 0.01  # detections with lower scores hardly change average precision
ROUNDS = 16  # of suppression, see `decoded`; BCCD needs up to 8 untrained, 4 to 7 in its first 120 steps
_INIT_STREAM = 1_000_001  # a random stream apart from those of the epochs


@dataclass(frozen=True)
class Hyperparameters(Recipe):
    """The fixed recipe; names follow MLPerf's log keys where there is one."""

    global_batch_size: int
    classes: int
    stride: int  # pixels, each way, of an output cell
    widths: tuple[int, ...]  # channels of each level, each at half the resolution of the one before
    blocks: tuple[int, ...]  # residual blocks of each level
    head_width: int
    norm_momentum: float
    opt_base_learning_rate: float
    opt_adamw_beta_2: float
    opt_weight_decay: float
    opt_learning_rate_warmup_samples: int
    opt_learning_rate_training_samples: int  # where the linear decay ends
    opt_end_learning_rate: float  # as a fraction of the base
    box_loss_weight: float
    box_prior: float  # pixels from a cell's centre to each side of the box that an untrained network predicts
    flips: tuple[bool, bool]  # mirror half of the images upside down, left to right
    zoom: float  # images are enlarged or reduced by up to this factor
    stretch: float  # and their height relative to their width
    shift: float  # and moved by up to this fraction of a side
    brightness: float  # up to this change of each channel's offset, and of its contrast, as a fraction
    nms_iou: float  # of two boxes of a class that overlap more, the one with the lower score is dropped
    max_detections: int  # per image

    def learning_rate(self, samples: int) -> float:
        """The learning rate after `samples`: linear warm-up, then linear decay to the end rate, which then holds."""
        warmup = min((samples + self.global_batch_size) / max(self.opt_learning_rate_warmup_samples, 1), 1.0)
        decay = max(1 - samples / self.opt_learning_rate_training_samples, self.opt_end_learning_rate)
        return self.opt_base_learning_rate * min(warmup, decay)


def initial_parameters(hyper: Hyperparameters, channels: int, seed: int) -> dict[str, np.ndarray]:
    """Parameters and batch-norm statistics by PyTorch's names.

    Convolutions are [out, in, height, width], with He's initialisation.
    """
    random = np.random.default_rng([seed, _INIT_STREAM])
    parameters: dict[str, np.ndarray] = {}

    def convolution(name: str, inputs: int, outputs: int, side: int, scale: float = 1.0) -> None:
        deviation = np.sqrt(2 / (inputs * side * side))
        parameters[f"{name}.conv.weight"] = random.normal(0, deviation, (outputs, inputs, side, side))
        parameters[f"{name}.norm.weight"] = np.full(outputs, scale)
        parameters[f"{name}.norm.bias"] = np.zeros(outputs)
        parameters[f"{name}.norm.running_mean"] = np.zeros(outputs)
        parameters[f"{name}.norm.running_var"] = np.ones(outputs)

    inputs = channels * hyper.stride**2
    for level, (width, blocks) in enumerate(zip(hyper.widths, hyper.blocks, strict=True)):
        convolution(f"down.{level}", inputs, width, 2 if level else 3)
        for block in range(blocks):
            convolution(f"blocks.{level}.{block}.first", width, width, 3)
            convolution(f"blocks.{level}.{block}.second", width, width, 3, scale=0.0)  # the block passes its input
        inputs = width
    for level in reversed(range(len(hyper.widths) - 1)):
        convolution(f"lateral.{level}", hyper.widths[level + 1], hyper.widths[level], 1)
        convolution(f"up.{level}", hyper.widths[level], hyper.widths[level], 3)
    convolution("head", hyper.widths[0], hyper.head_width, 3)
    parameters["output.weight"] = random.normal(0, 0.01, (hyper.classes + 4, hyper.head_width, 1, 1))
    parameters["output.bias"] = np.repeat([np.log(PRIOR / (1 - PRIOR)), 0.0], [hyper.classes, 4])
    return {name: value.astype(np.float32) for name, value in parameters.items()}


@dataclass(frozen=True)
class Draw:
    """What the host sends for a step: the numbers of its images, and how each is augmented."""

    chosen: np.ndarray  # int64 [B]
    scale: np.ndarray  # float32 [B, 2], of x and y about the centre; a negative one mirrors
    shift: np.ndarray  # float32 [B, 2], of x and y, as fractions of the side
    light: np.ndarray  # float32 [B, 2, C], changes of contrast and of offset


def draws(images: int, channels: int, hyper: Hyperparameters, seed: int, step: int) -> Iterator[Draw]:
    """The draws of one seed without end, in order, from `step` on. Incomplete batches are left out."""
    size = hyper.global_batch_size
    whole = steps(images, size, "images")
    for epoch in count(step // whole):
        random = np.random.default_rng([seed, epoch])
        order = random.permutation(images)
        views = random.uniform(-1, 1, (images, 6))
        zoom, stretch = hyper.zoom ** views[:, 0], hyper.stretch ** (views[:, 1] / 2)
        signs = np.where((views[:, 2:4] < 0) & hyper.flips, -1, 1)  # of y and x
        scale = (np.stack([zoom * stretch, zoom / stretch], 1) * signs)[:, ::-1].astype(np.float32)
        shift = (hyper.shift * views[:, :3:-1]).astype(np.float32)
        light = (hyper.brightness * random.uniform(-1, 1, (images, 2, channels))).astype(np.float32)
        for first in range(step % whole, whole):
            chosen = order[first * size :][:size]
            yield Draw(chosen, scale[chosen], shift[chosen], light[chosen])
        step = 0


def whole_batches(images: np.ndarray) -> Iterator[np.ndarray]:
    """The images [N, ...] as batches of `EVAL_BATCH`, the last padded with its last image."""
    for first in range(0, len(images), EVAL_BATCH):
        part = images[first : first + EVAL_BATCH]
        yield np.concatenate([part, *[part[-1:]] * (EVAL_BATCH - len(part))])


def records(found: np.ndarray, hyper: Hyperparameters, first: int = 0) -> list[list[dict[str, Any]]]:
    """COCO's result records of each image, best first; images are numbered from `first` on.

    `found` [N, K, 7] are candidates in order of score: corners x, y, x, y in pixels, score, class, and whether
    non-maximum suppression keeps them.
    """
    corners, score, others = np.split(found.astype(np.float64), [4, 5], -1)
    bbox = np.concatenate([corners[..., :2], corners[..., 2:] - corners[..., :2]], -1).round(2)
    kept = (others[..., 1] > 0) & (score[..., 0] >= LOWEST_SCORE)
    return [
        [
            {"image_id": first + image, "category_id": category, "bbox": box, "score": value}
            for box, value, category in zip(
                bbox[image, rows].tolist(),
                score[image, rows, 0].round(4).tolist(),
                others[image, rows, 0].astype(int).tolist(),
                strict=True,
            )
        ]
        for image, rows in enumerate(np.flatnonzero(k)[: hyper.max_detections] for k in kept)
    ]
