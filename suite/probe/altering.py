"""Alter any array of pictures as another library, or a mistake, would have prepared it."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from PIL import Image

from suite import config
from suite.probe import instruments

QUALITY = 95  # of a JPEG
SHRUNK = 7 / 8  # of the size; pictures are resized to it and back
RANGE = 255
VIDEO = 16, 235  # black and white of video's narrow range

Pictures = np.ndarray  # uint8 [N, H, W, C] from 0 to RANGE, C 1 or 3


def alterations(data: Mapping[str, np.ndarray]) -> dict[str, Callable[[], dict[str, np.ndarray]]]:
    """Return the ways to alter the evaluation's pictures, by name; empty if there are no pictures.

    Pictures are `test_*`, uint8 [N, H, W, 1 or 3]. A framework's own ways raise UserError if it is not installed.
    """
    pictures = {
        key: array
        for key, array in data.items()
        if key.startswith("test_") and array.dtype == np.uint8 and array.ndim == 4 and array.shape[-1] in (1, 3)
    }
    return {
        name if len(pictures) == 1 else f"{name}, {key}": partial(_altered, key, array, alter)
        for key, array in pictures.items()
        for name, alter in _ways().items()
        if array.shape[-1] == 3 or name not in COLOURED
    }


def _altered(name: str, array: np.ndarray, alter: Callable[[Pictures], np.ndarray]) -> dict[str, np.ndarray]:
    """Scale the array to 0 to RANGE, alter it, and scale it back to its own range."""
    highest = max(int(array.max()), 1)
    pictures = np.rint(array * (RANGE / highest)).astype(np.uint8)
    back = np.asarray(alter(pictures), np.float64) * (highest / RANGE)
    return {name: np.rint(back).clip(0, highest).astype(np.uint8)}


def _shifted(pictures: Pictures) -> Pictures:
    """A crop that begins one pixel further down and right, the last row and column repeated."""
    return np.pad(pictures, ((0, 0), (0, 1), (0, 1), (0, 0)), "edge")[:, 1:, 1:]


def _turned(pictures: Pictures) -> Pictures:
    return pictures[..., ::-1]


def _grey(pictures: Pictures) -> np.ndarray:
    """Luma of BT.601 in all colours."""
    return np.repeat(np.tensordot(pictures, [0.299, 0.587, 0.114], 1), 3).reshape(pictures.shape)


def _narrow(pictures: Pictures) -> np.ndarray:
    low, high = VIDEO
    return np.asarray(low + pictures * ((high - low) / RANGE))


def _centred(pictures: Pictures) -> np.ndarray:
    """Shift pictures as if they were normalised with a mean of one half instead of the data's own."""
    return np.asarray(pictures + (pictures.mean((0, 1, 2)) - RANGE / 2))


def _stretched(pictures: Pictures) -> np.ndarray:
    """Stretch each picture to the full range by its own lowest and highest value."""
    low, high = (each(pictures, axis=(1, 2, 3), keepdims=True).astype(np.float64) for each in (np.min, np.max))
    return np.asarray((pictures - low) * (RANGE / np.maximum(high - low, 1)))


def _pillow_resized(pictures: Pictures, way: Image.Resampling) -> Pictures:
    height, width = _shrunk(pictures)
    return _each(
        pictures,
        lambda image: np.asarray(Image.fromarray(image).resize((width, height), way).resize(image.shape[1::-1], way)),
    )


def _resized(pictures: Pictures, framework: str, antialias: bool) -> np.ndarray:
    resize = instruments.load(framework).resized
    return resize(resize(pictures, _shrunk(pictures), antialias), pictures.shape[1:3], antialias)


def _through_jpeg(pictures: Pictures, decode: Callable[[bytes, int], np.ndarray]) -> Pictures:
    """Write each picture as a JPEG of QUALITY with Pillow, and read it with `decode`."""

    def through(image: np.ndarray) -> np.ndarray:
        file = io.BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=QUALITY)
        return decode(file.getvalue(), 1 if image.ndim == 2 else 3)

    return _each(pictures, through)


def _decoded(pictures: Pictures, framework: str) -> Pictures:
    return _through_jpeg(pictures, instruments.load(framework).decoded)


def _by_pillow(jpeg: bytes, channels: int) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(jpeg)))


def _shrunk(pictures: Pictures) -> tuple[int, int]:
    height, width = pictures.shape[1:3]
    return round(height * SHRUNK), round(width * SHRUNK)


def _each(pictures: Pictures, alter: Callable[[np.ndarray], np.ndarray]) -> Pictures:
    """Apply `alter` to each picture; grey ones are passed as [H, W]."""
    plain = pictures[..., 0] if pictures.shape[-1] == 1 else pictures
    return np.stack([alter(np.ascontiguousarray(each)) for each in plain]).reshape(pictures.shape)


RESAMPLING = (Image.Resampling.NEAREST, Image.Resampling.BILINEAR, Image.Resampling.BICUBIC)
COLOURED = ("colours in the order BGR", "grey in place of colours")
WAYS: dict[str, Callable[[Pictures], np.ndarray]] = {
    "crop one pixel off": _shifted,
    COLOURED[0]: _turned,
    COLOURED[1]: _grey,
    "range of video, 16 to 235": _narrow,
    "mean of one half, not the data's": _centred,
    "each picture to its full range": _stretched,
    **{f"resized, Pillow {way.name.lower()}": partial(_pillow_resized, way=way) for way in RESAMPLING},
    "JPEG decoded by Pillow": partial(_through_jpeg, decode=_by_pillow),
}
OF_A_FRAMEWORK: dict[str, Callable[..., np.ndarray]] = {
    "resized, {} bilinear": partial(_resized, antialias=True),
    "resized, {} not antialiased": partial(_resized, antialias=False),
    "JPEG decoded by {}": _decoded,
}


def _ways() -> dict[str, Callable[[Pictures], np.ndarray]]:
    """All ways by name, including those of each framework that has instruments, installed or not."""
    theirs = {
        name.format(config.framework(framework).title): partial(alter, framework=framework)
        for framework in instruments.having()
        for name, alter in OF_A_FRAMEWORK.items()
    }
    return {**WAYS, **theirs}
