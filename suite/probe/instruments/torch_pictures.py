"""Pictures resized and decoded by torchvision."""

from __future__ import annotations

import numpy as np
import torch


def resized(pictures: np.ndarray, size: tuple[int, ...], antialias: bool) -> np.ndarray:
    """See `Instruments.resized`."""
    from torchvision.transforms.v2 import functional

    planes = torch.from_numpy(np.ascontiguousarray(pictures.transpose(0, 3, 1, 2)))
    made = functional.resize(planes, list(size), antialias=antialias)
    return np.asarray(made.numpy().transpose(0, 2, 3, 1))


def decoded(jpeg: bytes, channels: int) -> np.ndarray:
    """See `Instruments.decoded`."""
    from torchvision.io import ImageReadMode, decode_jpeg

    mode = ImageReadMode.GRAY if channels == 1 else ImageReadMode.RGB
    planes = decode_jpeg(torch.frombuffer(bytearray(jpeg), dtype=torch.uint8), mode)
    return np.asarray(planes.permute(1, 2, 0).numpy())
