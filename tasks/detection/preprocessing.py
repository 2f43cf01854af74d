"""Test photographs decoded and made smaller by other libraries than Pillow, or in other ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from tasks.detection.cells import FOLDER, REDUCTION, photographs

Smaller = Callable[[Image.Image], Image.Image]


def alterations(
    scale: str, files: Path, data: Mapping[str, np.ndarray]
) -> dict[str, Callable[[], dict[str, np.ndarray]]]:
    """See `suite.store.modules.Altering`; none for `mini`, whose scenes are generated."""
    if scale == "mini":
        return {}
    paths = photographs(files / FOLDER, "test")

    def of(decode: Callable[[Path], Image.Image], reduce: Smaller) -> dict[str, np.ndarray]:
        return {"test_images": np.stack([np.asarray(reduce(decode(path))) for path in paths])}

    def resized(way: Image.Resampling) -> Smaller:
        return lambda image: image.resize((image.width // REDUCTION, image.height // REDUCTION), way)

    def mean(image: Image.Image) -> Image.Image:
        return image.reduce(REDUCTION)

    return {
        "photographs decoded by torchvision": partial(of, _by_torchvision, mean),
        "photographs decoded by TensorFlow": partial(of, _by_tensorflow, mean),
        **{
            f"photographs made smaller, {way.name.lower()}": partial(of, _by_pillow, resized(way))
            for way in (Image.Resampling.NEAREST, Image.Resampling.BILINEAR, Image.Resampling.LANCZOS)
        },
        "photographs decoded at half size": partial(of, _drafted, lambda image: image),
    }


def _by_pillow(path: Path) -> Image.Image:
    return Image.open(path).convert("RGB")


def _drafted(path: Path) -> Image.Image:
    """Decode at reduced size, by libjpeg's own scaling."""
    image = Image.open(path)
    image.draft("RGB", (image.width // REDUCTION, image.height // REDUCTION))
    return image.convert("RGB")


def _by_torchvision(path: Path) -> Image.Image:
    from torchvision.io import ImageReadMode, decode_image

    return Image.fromarray(decode_image(str(path), ImageReadMode.RGB).permute(1, 2, 0).numpy())


def _by_tensorflow(path: Path) -> Image.Image:
    import tensorflow as tf

    return Image.fromarray(tf.io.decode_jpeg(path.read_bytes(), 3).numpy())
