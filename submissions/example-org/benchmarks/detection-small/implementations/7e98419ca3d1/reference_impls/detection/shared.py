"""What both frameworks share: initial parameters, data order, augmentation, targets and schedule, in numpy.

Everything is a function of the seed and of the step, so a checkpoint needs no random state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from reference_impls.recipe import Recipe

CENTRE, SPREAD = 128.0, 64.0  # of bytes; a fixed affine map, not a statistic of the training data
PRIOR = 0.1  # the heat that every cell starts with (CenterNet)
GAUSSIAN = 0.54  # radius of an object's heat as a fraction of its half side (TTFNet's alpha and beta)
VISIBLE = 0.25  # of an object's area; with less left in the picture it is no object any more
FP16_LOSS_SCALE = 128.0
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
    nms_iou: float  # of two boxes of a class that overlap more the one with the lower score goes
    max_detections: int  # per image

    def learning_rate(self, samples: int) -> float:
        """The learning rate after `samples`: a linear rise, then linear decay to the end, which holds from there on."""
        warmup = min((samples + self.global_batch_size) / self.opt_learning_rate_warmup_samples, 1.0)
        decay = max(1 - samples / self.opt_learning_rate_training_samples, self.opt_end_learning_rate)
        return self.opt_base_learning_rate * min(warmup, decay)


def initial_parameters(hyper: Hyperparameters, channels: int, seed: int) -> dict[str, np.ndarray]:
    """Parameters and batch-norm statistics by name; convolutions [out, in, height, width] with He's deviation."""
    random = np.random.default_rng([seed, _INIT_STREAM])
    parameters: dict[str, np.ndarray] = {}

    def convolution(name: str, inputs: int, outputs: int, side: int, norm: bool = True) -> None:
        deviation = np.sqrt(2 / (inputs * side * side))
        parameters[f"{name}_weight"] = random.normal(0, deviation, (outputs, inputs, side, side))
        if norm:
            # the second convolution of a residual block starts at zero: the block passes its input through
            parameters[f"{name}_scale"] = np.full(outputs, 0.0 if name.endswith("_b") else 1.0)
            parameters[f"{name}_bias"] = np.zeros(outputs)
            parameters[f"{name}_mean"] = np.zeros(outputs)
            parameters[f"{name}_variance"] = np.ones(outputs)

    inputs = channels * hyper.stride**2
    for level, (width, blocks) in enumerate(zip(hyper.widths, hyper.blocks, strict=True)):
        convolution(f"down{level}", inputs, width, 2 if level else 3)
        for block in range(blocks):
            convolution(f"block{level}_{block}_a", width, width, 3)
            convolution(f"block{level}_{block}_b", width, width, 3)
        inputs = width
    for level in reversed(range(len(hyper.widths) - 1)):
        convolution(f"lateral{level}", hyper.widths[level + 1], hyper.widths[level], 1)
        convolution(f"up{level}", hyper.widths[level], hyper.widths[level], 3)
    convolution("head", hyper.widths[0], hyper.head_width, 3)
    outputs = hyper.classes + 4
    parameters["output_weight"] = random.normal(0, 0.01, (outputs, hyper.head_width, 1, 1))
    parameters["output_bias"] = np.repeat([np.log(PRIOR / (1 - PRIOR)), 0.0], [hyper.classes, 4])
    return {name: value.astype(np.float32) for name, value in parameters.items()}


def is_trained(name: str) -> bool:
    """Whether the optimizer changes the parameter; batch norm's statistics it does not."""
    return not name.endswith(("_mean", "_variance"))


def normalise(pixels: np.ndarray) -> np.ndarray:
    """Bytes to float32 around zero."""
    values = pixels.astype(np.float32)
    values -= CENTRE
    values /= SPREAD
    return values


def patches(images: np.ndarray, stride: int) -> np.ndarray:
    """Images [B, H, W, C] as cells with the pixels of their patch, [B, H / stride, W / stride, stride * stride * C]."""
    batch, height, width, channels = images.shape
    cells = images.reshape(batch, height // stride, stride, width // stride, stride, channels)
    flat = cells.transpose(0, 1, 3, 2, 4, 5).reshape(batch, height // stride, width // stride, -1)
    return np.ascontiguousarray(flat)


@dataclass(frozen=True)
class Targets:
    """What the network should say in each cell.

    `heat` [B, h, w, classes] is one at an object's centre and falls off around it; `sides` [B, h, w, 4] are the pixels
    from the cell's centre to the left, top, right and bottom of its object; `weight` [B, h, w] is how much these
    count, one in all for each object; `objects` is their number, at least one.
    """

    heat: np.ndarray
    sides: np.ndarray
    weight: np.ndarray
    objects: float


def targets(boxes: np.ndarray, classes: np.ndarray, cells: np.ndarray, hyper: Hyperparameters) -> Targets:
    """Targets for boxes [B, L, 4] in pixels and classes [B, L], padded with -1, of images as `cells` [B, h, w, ...]."""
    height, width = cells.shape[1:3]
    centre = (boxes[..., :2] + boxes[..., 2:]) / (2 * hyper.stride)
    size = (boxes[..., 2:] - boxes[..., :2]) / hyper.stride
    cell = np.clip(np.floor(centre), 0, [width - 1, height - 1])
    radius = np.floor(GAUSSIAN * size / 2)
    deviation = (2 * radius + 1) / 6
    bells = []
    for axis, side in enumerate((width, height)):
        distance = np.abs(np.arange(side) - cell[..., axis, None])
        bell = np.exp(-0.5 * (distance / deviation[..., axis, None]) ** 2)
        bells.append(np.where(distance <= radius[..., axis, None], bell, 0).astype(np.float32))
    present = classes >= 0
    heats = bells[1][..., :, None] * (bells[0] * present[..., None])[..., None, :]  # [B, L, h, w]

    heat = np.zeros((len(boxes), hyper.classes, height, width), np.float32)
    images = np.arange(len(boxes))
    for bells_of_one, class_of_one in zip(heats.swapaxes(0, 1), classes.T, strict=True):
        heat[images, class_of_one] = np.maximum(heat[images, class_of_one], bells_of_one)
    area = np.where(present, size.prod(-1), np.inf).astype(np.float32)[..., None, None]
    owner = np.where(heats > 0, area, np.float32(np.inf)).argmin(1)  # where objects overlap, the smallest one
    own_heat = np.take_along_axis(heats, owner[:, None], 1)[:, 0]
    own_box = np.take_along_axis(boxes, owner.reshape(len(boxes), -1, 1), 1).reshape(*owner.shape, 4)
    total = heats.sum((2, 3))
    weight = own_heat / np.maximum(np.take_along_axis(total, owner.reshape(len(boxes), -1), 1).reshape(owner.shape), 1)
    x, y = ((np.arange(side) + 0.5) * hyper.stride for side in (width, height))
    points = np.stack(np.broadcast_arrays(x[None, :], y[:, None]), -1)
    sides = np.concatenate([points - own_box[..., :2], own_box[..., 2:] - points], -1)
    return Targets(
        np.ascontiguousarray(heat.transpose(0, 2, 3, 1)),
        sides.astype(np.float32),
        weight.astype(np.float32),
        float(max(present.sum(), 1)),
    )


@dataclass(frozen=True)
class Batch:
    """Cells float32 [B, h, w, stride * stride * C] of a step's images, and what they show."""

    cells: np.ndarray
    targets: Targets


class Batches:
    """The training batches of one seed, in order, from any step on. Incomplete batches are left out."""

    def __init__(self, data: Mapping[str, np.ndarray], hyper: Hyperparameters, seed: int) -> None:
        self.planes = np.ascontiguousarray(data["train_images"].transpose(0, 3, 1, 2))
        self.boxes, self.classes = np.array(data["train_boxes"]), np.array(data["train_classes"])
        self.hyper, self.seed = hyper, seed
        self.steps_per_epoch = len(self.planes) // hyper.global_batch_size

    def iterate(self, step: int) -> Iterator[Batch]:
        """Batches without end, from `step` on."""
        size = self.hyper.global_batch_size
        while True:
            epoch, within = divmod(step, self.steps_per_epoch)
            random = np.random.default_rng([self.seed, epoch])
            order = random.permutation(len(self.planes))
            views = random.uniform(-1, 1, (len(self.planes), 6))
            light = random.uniform(-1, 1, (len(self.planes), 2, self.planes.shape[1]))
            for first in range(within, self.steps_per_epoch):
                chosen = order[first * size :][:size]
                yield self._batch(chosen, views[chosen], light[chosen])
            step = (epoch + 1) * self.steps_per_epoch

    def _batch(self, chosen: np.ndarray, views: np.ndarray, light: np.ndarray) -> Batch:
        """The images `chosen`, seen as the draws `views` [B, 6] and `light` [B, 2, C], all from -1 to 1, say."""
        hyper, planes = self.hyper, normalise(self.planes[chosen])
        height, width = planes.shape[2:]
        zoom, stretch = hyper.zoom ** views[:, 0], hyper.stretch ** (views[:, 1] / 2)
        signs = np.where((views[:, 2:4] < 0) & hyper.flips, -1, 1)
        scales = np.stack([zoom * stretch, zoom / stretch], 1) * signs  # of y and x
        shifts = views[:, 4:6] * hyper.shift * [height, width]
        rows, columns = (sampling(scales[:, i], shifts[:, i], side) for i, side in enumerate((height, width)))
        seen = np.matmul(np.matmul(rows[:, None], planes), columns[:, None].transpose(0, 1, 3, 2))
        gain, offset = (hyper.brightness * light[:, i, :, None, None].astype(np.float32) for i in (0, 1))
        seen *= 1 + gain
        seen += offset
        cells = patches(seen.transpose(0, 2, 3, 1), hyper.stride)
        boxes, classes = move(self.boxes[chosen], self.classes[chosen], scales, shifts, height, width)
        return Batch(cells, targets(boxes, classes, cells, hyper))


def evaluation_batches(data: Mapping[str, np.ndarray], size: int, stride: int) -> Iterator[np.ndarray]:
    """The test images in order, as cells [<= size, h, w, stride * stride * C]."""
    images = data["test_images"]
    for first in range(0, len(images), size):
        yield patches(normalise(images[first : first + size]), stride)


def sampling(scale: np.ndarray, shift: np.ndarray, side: int) -> np.ndarray:
    """Matrices [B, side, side] that interpolate a side's pixels linearly: position p goes to centre + scale * (p -
    centre) + shift, and what comes from outside is zero. A negative scale mirrors.
    """
    pixels = np.arange(side, dtype=np.float32)
    centre = (side - 1) / 2
    source = ((pixels - centre - shift[:, None]) / scale[:, None] + centre).astype(np.float32)
    weights: np.ndarray = source[:, :, None] - pixels
    np.abs(weights, out=weights)
    np.subtract(1, weights, out=weights)
    np.maximum(weights, 0, out=weights)
    return weights


def move(
    boxes: np.ndarray, classes: np.ndarray, scales: np.ndarray, shifts: np.ndarray, height: int, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Boxes [B, L, 4] and classes [B, L] after the images' y and x were scaled and shifted [B, 2], as by `sampling`.

    Boxes are cut at the border; an object of which less than `VISIBLE` is left gets class -1.
    """
    centre, frame = np.array([width, height]) / 2, np.array([width, height])
    scale, shift = scales[:, None, ::-1], shifts[:, None, ::-1]
    corners = [centre + scale * (boxes[..., i : i + 2] - centre) + shift for i in (0, 2)]
    low, high = np.minimum(*corners), np.maximum(*corners)
    cut = np.concatenate([np.clip(low, 0, frame), np.clip(high, 0, frame)], -1)
    left = (cut[..., 2:] - cut[..., :2]).prod(-1)
    seen = left >= VISIBLE * (high - low).prod(-1)
    return cut, np.where(seen, classes, -1)
