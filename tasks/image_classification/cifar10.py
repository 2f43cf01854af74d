"""CIFAR-10 in the Python version that its authors publish, and its pictures as JPEG files.

The place of a picture is its number.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tasks.image_classification.index import ROW

FOLDER = "cifar-10-batches-py"
TRAINING = tuple(f"data_batch_{i}" for i in range(1, 6))
EACH = 10_000  # images of a file
QUALITY = 95  # of the JPEG files


def read(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images uint8 [50000, 32, 32, 3] and labels uint8 [50000], test images and labels, in the files' order.

    The files are unpickled, so their sums must have been verified.
    """
    train = [_batch(folder / name) for name in TRAINING]
    images, labels = (np.concatenate(parts) for parts in zip(*train, strict=True))
    return images, labels, *_batch(folder / "test_batch")


def rows(files: Path) -> tuple[np.ndarray, np.ndarray]:
    """See `index.Source`."""
    train, train_labels, test, test_labels = read(files / FOLDER)

    def of(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return np.array([(i, len(_jpeg(images[i])), label) for i, label in enumerate(labels)], ROW)

    return of(train, train_labels), of(test, test_labels)


@contextmanager
def reader(files: Path, split: str) -> Iterator[Callable[[np.void], bytes]]:
    """See `index.Source`."""
    batches = [_batch(files / FOLDER / name)[0] for name in (TRAINING if split == "train" else ("test_batch",))]
    yield lambda row: _jpeg(batches[row["place"] // EACH][row["place"] % EACH])


def _jpeg(image: np.ndarray) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def _batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    batch = pickle.loads(path.read_bytes(), encoding="latin1")
    images = batch["data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), np.array(batch["labels"], dtype=np.uint8)
