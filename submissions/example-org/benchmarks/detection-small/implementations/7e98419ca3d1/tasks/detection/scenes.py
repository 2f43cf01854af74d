"""Scenes of `mini`: digits of the UCI set in many sizes, some overlapping, on a textured ground.

Everything is integer arithmetic and Pillow's own, which is integer too, so the same pixels come out on every machine.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

SIDE = 64
TRAIN_SCENES, TEST_SCENES = 2000, 400
DIGITS_TRAIN = 1000  # the other 797 digits, mostly by other hands, make the test scenes
OBJECTS = (3, 8)  # digits in a scene
SIZES = (12, 28)  # pixels that the 8x8 image of a digit is enlarged to
INK = 96  # of 255: where a digit's box begins
OVERLAP = 0.3  # of the smaller of two boxes, at most
TRIES = 20  # places that are tried for a digit before it is left out

Box = tuple[int, int, int, int]
Scene = tuple[np.ndarray, np.ndarray, np.ndarray]
Scenes = tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]


def splits() -> tuple[Scenes, Scenes]:
    """Training and test scenes: images uint8 [64, 64, 1], boxes float32 [n, 4], classes int8 [n], a list of each."""
    from sklearn.datasets import load_digits

    loaded = load_digits()
    images, labels = (loaded.images * 255 / 16).astype(np.uint8), loaded.target
    train, test = slice(DIGITS_TRAIN), slice(DIGITS_TRAIN, None)
    return (
        _scenes(images[train], labels[train], TRAIN_SCENES, seed=1),
        _scenes(images[test], labels[test], TEST_SCENES, seed=2),
    )


def _scenes(digits: np.ndarray, labels: np.ndarray, count: int, seed: int) -> Scenes:
    random = np.random.default_rng(seed)
    made = [_scene(digits, labels, random) for _ in range(count)]
    images, boxes, classes = (list(part) for part in zip(*made, strict=True))
    return images, boxes, classes


def _scene(digits: np.ndarray, labels: np.ndarray, random: np.random.Generator) -> Scene:
    """One scene: digits of random size, proportions and brightness, later ones over earlier ones."""
    pixels = _ground(random)
    boxes: list[Box] = []
    classes: list[int] = []
    for _ in range(random.integers(*OBJECTS, endpoint=True)):
        chosen = random.integers(len(digits))
        size = int(random.integers(*SIZES, endpoint=True))
        width = size * int(random.integers(80, 121)) // 100
        mask = np.asarray(Image.fromarray(digits[chosen]).resize((width, size), Image.Resampling.BICUBIC), np.int64)
        brightness = random.integers(170, 256)
        rows, columns = (np.flatnonzero((mask >= INK).any(axis)) for axis in (1, 0))
        left, top, right, bottom = map(int, (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1))
        for x, y in random.integers(0, [SIDE - width + 1, SIDE - size + 1], (TRIES, 2)).tolist():
            box = x + left, y + top, x + right, y + bottom
            if all(_overlap(box, other) <= OVERLAP for other in boxes):
                part = pixels[y : y + size, x : x + width]
                part += (brightness - part) * mask // 255
                boxes.append(box)
                classes.append(labels[chosen])
                break
    return pixels.astype(np.uint8)[..., None], np.array(boxes, np.float32), np.array(classes, np.int8)


def _ground(random: np.random.Generator) -> np.ndarray:
    """Soft spots, coarse and fine, and grain: integers [64, 64] from 0 to about 160."""
    layers = [
        np.asarray(
            Image.fromarray(random.integers(0, 256, (cells, cells), np.uint8)).resize(
                (SIDE, SIDE), Image.Resampling.BICUBIC
            ),
            np.int64,
        )
        for cells in (random.integers(2, 6), random.integers(8, 24))
    ]
    grain = random.integers(0, 24, (SIDE, SIDE))
    ground: np.ndarray = (layers[0] * random.integers(40, 90) + layers[1] * random.integers(10, 60)) // 255 + grain
    return ground


def _overlap(a: Box, b: Box) -> float:
    """The intersection of two boxes as a fraction of the smaller one."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    smaller = min((c[2] - c[0]) * (c[3] - c[1]) for c in (a, b))
    return max(width, 0) * max(height, 0) / smaller
