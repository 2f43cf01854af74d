"""CIFAR-10 as the Python version of its authors' page holds it."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np


def read(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images uint8 [50000, 32, 32, 3] and labels uint8 [50000], test images and labels, in the files' order.

    Files are unpickled: after their sums were verified.
    """
    train = [_batch(folder / f"data_batch_{i}") for i in range(1, 6)]
    images, labels = (np.concatenate(parts) for parts in zip(*train, strict=True))
    return images, labels, *_batch(folder / "test_batch")


def _batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    batch = pickle.loads(path.read_bytes(), encoding="latin1")
    images = batch["data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), np.array(batch["labels"], dtype=np.uint8)
