"""Pictures as another library, or a mistake, would have prepared them: what fits any array of pictures."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

QUALITY = 95  # of a JPEG
SHRUNK = 7 / 8  # of the size; pictures are resized to it and back
RANGE = 255
VIDEO = 16, 235  # black and white of video's narrow range

Pictures = np.ndarray  # uint8 [N, H, W, C] from 0 to RANGE, C 1 or 3


def alterations(data: Mapping[str, np.ndarray]) -> dict[str, Callable[[], dict[str, np.ndarray]]]:
    """Ways to alter the evaluation's pictures, `test_*` uint8 [N, H, W, 1 or 3], by name; none where there are none."""
    return {
        f"{name}{'' if len(found) == 1 else f', {key}'}": partial(_altered, key, array, alter)
        for found in [_pictures(data)]
        for key, array in found.items()
        for name, alter in WAYS.items()
        if array.shape[-1] == 3 or name not in COLOURED
    }


def _pictures(data: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {
        name: array
        for name, array in data.items()
        if name.startswith("test_") and array.dtype == np.uint8 and array.ndim == 4 and array.shape[-1] in (1, 3)
    }


def _altered(name: str, array: np.ndarray, alter: Callable[[Pictures], np.ndarray]) -> dict[str, np.ndarray]:
    """The array, altered in a range of 0 to RANGE and brought back to its own."""
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
    """Normalised by a mean of one half in place of the data's own."""
    return np.asarray(pictures + (pictures.mean((0, 1, 2)) - RANGE / 2))


def _stretched(pictures: Pictures) -> np.ndarray:
    """Each picture by its own lowest and highest value."""
    low, high = (each(pictures, axis=(1, 2, 3), keepdims=True).astype(np.float64) for each in (np.min, np.max))
    return np.asarray((pictures - low) * (RANGE / np.maximum(high - low, 1)))


def _pil_resized(pictures: Pictures, way: str) -> Pictures:
    from PIL import Image

    resampling: Any = getattr(Image.Resampling, way)
    height, width = _shrunk(pictures)
    return _each(
        pictures,
        lambda image: np.asarray(
            Image.fromarray(image).resize((width, height), resampling).resize(image.shape[1::-1], resampling)
        ),
    )


def _torch_resized(pictures: Pictures, antialias: bool) -> np.ndarray:
    import torch
    from torchvision.transforms.v2 import functional

    planes = torch.from_numpy(np.ascontiguousarray(pictures.transpose(0, 3, 1, 2)))
    small = functional.resize(planes, list(_shrunk(pictures)), antialias=antialias)
    back = functional.resize(small, list(pictures.shape[1:3]), antialias=antialias)
    return np.asarray(back.numpy().transpose(0, 2, 3, 1))


def _tensorflow_resized(pictures: Pictures, antialias: bool) -> np.ndarray:
    import tensorflow as tf

    small = tf.image.resize(pictures, _shrunk(pictures), antialias=antialias)
    return np.asarray(tf.image.resize(small, pictures.shape[1:3], antialias=antialias))


def _decoded(pictures: Pictures, decode: Callable[[bytes, int], np.ndarray]) -> Pictures:
    """Through a JPEG of QUALITY that Pillow wrote."""
    from PIL import Image

    def through(image: np.ndarray) -> np.ndarray:
        file = io.BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=QUALITY)
        return decode(file.getvalue(), 1 if image.ndim == 2 else 3)

    return _each(pictures, through)


def _by_pil(jpeg: bytes, channels: int) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(jpeg)))


def _by_torchvision(jpeg: bytes, channels: int) -> np.ndarray:
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg

    mode = ImageReadMode.GRAY if channels == 1 else ImageReadMode.RGB
    found = decode_jpeg(torch.frombuffer(bytearray(jpeg), dtype=torch.uint8), mode)
    return np.asarray(found.permute(1, 2, 0).numpy())


def _by_tensorflow(jpeg: bytes, channels: int) -> np.ndarray:
    import tensorflow as tf

    return np.asarray(tf.io.decode_jpeg(jpeg, channels))


def _shrunk(pictures: Pictures) -> tuple[int, int]:
    height, width = pictures.shape[1:3]
    return round(height * SHRUNK), round(width * SHRUNK)


def _each(pictures: Pictures, alter: Callable[[np.ndarray], np.ndarray]) -> Pictures:
    """Each picture, grey ones as [H, W]."""
    plain = pictures[..., 0] if pictures.shape[-1] == 1 else pictures
    return np.stack([alter(np.ascontiguousarray(each)) for each in plain]).reshape(pictures.shape)


COLOURED = ("colours in the order BGR", "grey in place of colours")
WAYS: dict[str, Callable[[Pictures], np.ndarray]] = {
    "crop one pixel off": _shifted,
    COLOURED[0]: _turned,
    COLOURED[1]: _grey,
    "range of video, 16 to 235": _narrow,
    "mean of one half, not the data's": _centred,
    "each picture to its full range": _stretched,
    **{f"resized, Pillow {way.lower()}": partial(_pil_resized, way=way) for way in ("NEAREST", "BILINEAR", "BICUBIC")},
    "resized, torchvision bilinear": partial(_torch_resized, antialias=True),
    "resized, torchvision not antialiased": partial(_torch_resized, antialias=False),
    "resized, TensorFlow not antialiased": partial(_tensorflow_resized, antialias=False),
    "JPEG decoded by Pillow": partial(_decoded, decode=_by_pil),
    "JPEG decoded by torchvision": partial(_decoded, decode=_by_torchvision),
    "JPEG decoded by TensorFlow": partial(_decoded, decode=_by_tensorflow),
}
