"""The ResNet's input: the order of the images, and the decoding of JPEG files; in numpy and Pillow.

Everything that is drawn is a function of the seed, the epoch and the image's number, so a checkpoint needs no random
state. Files are decoded, cropped and resized on the clock, in threads, while the device works; Pillow releases Python's
lock meanwhile.
"""

from __future__ import annotations

import io
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import TypeVar

import numpy as np
from PIL import Image

from reference_impls.image_classification.resnet import Hyperparameters
from reference_impls.shares import part, steps
from suite.errors import UserError
from suite.harness.implementation import Device
from tasks.image_classification.jpegs import Jpegs

MEAN, DEVIATION = (123.68, 116.28, 103.53), (58.395, 57.12, 57.375)  # of ImageNet's bytes, red, green, blue
AHEAD = 3  # groups that are being decoded while the device works on another
AT_ONCE = 8  # images of a task: handing them to threads one by one takes Python 15 us each, and so 2
TRIES = 10
RATIOS = (math.log(3 / 4), math.log(4 / 3))
_CROP_STREAM = 1_000_002  # a random stream apart from those of the epochs
Beside = TypeVar("Beside")


def crop_box(width: int, height: int, least: float, random: np.random.Generator) -> tuple[int, int, int, int]:
    """Left, upper, right and lower edge of a random crop, by the rule of torchvision's RandomResizedCrop.

    It has from `least` to all of the area, and sides from 3:4 to 4:3; it is the middle where ten draws do not fit.
    """
    for _ in range(TRIES):
        area = width * height * random.uniform(least, 1)
        ratio = math.exp(random.uniform(*RATIOS))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, upper = int(random.integers(width - w + 1)), int(random.integers(height - h + 1))
            return left, upper, left + w, upper + h
    low, high = map(math.exp, RATIOS)
    w, h = min(width, round(height * high)), min(height, round(width / low))
    left, upper = (width - w) // 2, (height - h) // 2
    return left, upper, left + w, upper + h


def training_image(file: np.ndarray, hyper: Hyperparameters, random: np.random.Generator) -> np.ndarray:
    """A random crop of a JPEG file's image, uint8 [image_size, image_size, 3], mirrored with a probability of 1/2."""
    image = _opened(file)
    box = crop_box(*image.size, hyper.min_crop_area, random)
    side = hyper.image_size
    pixels = np.asarray(_rgb(image).crop(box).resize((side, side), Image.Resampling.BILINEAR))
    return pixels[:, ::-1] if random.random() < 0.5 else pixels


def test_image(file: np.ndarray, hyper: Hyperparameters) -> np.ndarray:
    """The middle of a JPEG file's image, uint8 [image_size, image_size, 3], after its shorter side is made `resize`."""
    image = _opened(file)
    width, height = image.size
    shorter = min(width, height)
    size = int(hyper.resize * width / shorter), int(hyper.resize * height / shorter)
    smaller = _rgb(image).resize(size, Image.Resampling.BILINEAR)
    left, upper = (round((side - hyper.image_size) / 2) for side in size)
    return np.asarray(smaller.crop((left, upper, left + hyper.image_size, upper + hyper.image_size)))


def _opened(file: np.ndarray) -> Image.Image:
    return Image.open(io.BytesIO(file.tobytes()))


def _rgb(image: Image.Image) -> Image.Image:
    return image if image.mode == "RGB" else image.convert("RGB")  # a few are grey, some CMYK


class Training:
    """The training images of a worker, in groups of `norm_batch_size`, in the order of a seed.

    In each epoch all images are shuffled and the steps take them in turn, each worker its groups of every step; an
    incomplete batch at the end is left out.
    """

    def __init__(self, data: Mapping[str, np.ndarray], hyper: Hyperparameters, seed: int, device: Device) -> None:
        self.jpegs, self.labels = Jpegs(data, "train"), data["train_labels"]
        self.hyper, self.seed, self.device = hyper, seed, device
        self.steps_per_epoch = steps(len(self.jpegs), hyper.global_batch_size, "images")

    def groups(self, step: int) -> Iterator[tuple[int, np.ndarray]]:
        """Each group's epoch and the numbers of its images, without end, from `step` on."""
        own = part(self.hyper.groups, self.device)
        epoch, order = -1, np.empty(0, np.int64)
        for each in count(step):
            now, within = divmod(each, self.steps_per_epoch)
            if now != epoch:
                epoch = now
                order = np.random.default_rng([self.seed, epoch]).permutation(len(self.jpegs))
            chosen = order[within * self.hyper.global_batch_size :][: self.hyper.global_batch_size]
            for group in chosen.reshape(self.hyper.groups, -1)[own]:
                yield epoch, group

    def image(self, epoch: int, number: int) -> np.ndarray:
        """An image as an epoch sees it; see `training_image`."""
        random, file = np.random.default_rng([self.seed, _CROP_STREAM, epoch, number]), self.jpegs[number]
        with _named("training", number):
            return training_image(file, self.hyper, random)

    def iterate(self, step: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Images uint8 [norm_batch_size, image_size, image_size, 3] and labels int64 of each group, decoded ahead."""
        jobs = (
            ([partial(self.image, epoch, int(number)) for number in group], self.labels[group].astype(np.int64))
            for epoch, group in self.groups(step)
        )
        return decoded(jobs, self.hyper, self.device)


def evaluation(
    data: Mapping[str, np.ndarray], hyper: Hyperparameters, device: Device
) -> Iterator[tuple[np.ndarray, int]]:
    """The worker's share of the test images, in blocks as `decoded` yields them, each with its number of images."""
    jpegs = Jpegs(data, "test")
    own = range(len(jpegs))[part(len(jpegs), device)]
    blocks = (own[i : i + hyper.norm_batch_size] for i in range(0, len(own), hyper.norm_batch_size))
    jobs = (([partial(_test_image, jpegs, number, hyper) for number in block], len(block)) for block in blocks)
    return decoded(jobs, hyper, device)


def _test_image(jpegs: Jpegs, number: int, hyper: Hyperparameters) -> np.ndarray:
    file = jpegs[number]
    with _named("test", number):
        return test_image(file, hyper)


@contextmanager
def _named(split: str, number: int) -> Iterator[None]:
    """Turn an error in decoding an image into a UserError that names the image."""
    try:
        yield
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise UserError(
            f"{split} image {number} of the shards cannot be decoded ({error}): bring the images again, delete the "
            "shards that were made of them and their index.bin, and begin a new run"
        ) from error


def decoded(
    jobs: Iterable[tuple[Sequence[Callable[[], np.ndarray]], Beside]], hyper: Hyperparameters, device: Device
) -> Iterator[tuple[np.ndarray, Beside]]:
    """Yield each job's images, and what the job has beside them, while `AHEAD` other jobs are under way.

    Images are uint8 [norm_batch_size, image_size, image_size, 3], padded with zeros if a job makes fewer.
    """
    shape = (hyper.norm_batch_size, hyper.image_size, hyper.image_size, 3)
    coming: deque[tuple[np.ndarray, Beside, list[Future[None]]]] = deque()
    with ThreadPoolExecutor(device.cpus) as pool:
        for calls, beside in jobs:
            images = np.zeros(shape, np.uint8)
            filled = [pool.submit(_fill, images[i:], calls[i : i + AT_ONCE]) for i in range(0, len(calls), AT_ONCE)]
            coming.append((images, beside, filled))
            if len(coming) > AHEAD:
                yield _done(*coming.popleft())
        while coming:
            yield _done(*coming.popleft())


def _fill(images: np.ndarray, calls: Sequence[Callable[[], np.ndarray]]) -> None:
    for image, make in zip(images, calls, strict=False):
        image[:] = make()


def _done(images: np.ndarray, beside: Beside, futures: Sequence[Future[None]]) -> tuple[np.ndarray, Beside]:
    for future in futures:
        future.result()
    return images, beside
