"""Image classification: predict the class of an image; the quality is top-1 accuracy on the test split.

A prediction is the class number of one test image. Arrays (both scales):
`train_images` uint8 [N, H, W, C], `train_labels` uint8 [N], `test_images` uint8 [M, H, W, C] and `answer_labels`
uint8 [M].
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from suite.errors import BadPrediction

METRICS = {"accuracy": (0.0, 1.0)}
DIGITS_TRAIN = 1000  # writers come one after another in the file: the rest is mostly other hands


def prepare(scale: str, files: Path) -> dict[str, np.ndarray]:
    """The arrays of `mini` (UCI digits, 1000 + 797 images 8x8x1 of 0..16) or `small` (CIFAR-10, 50,000 + 10,000)."""
    return _digits() if scale == "mini" else _cifar10(files / "cifar-10-batches-py")


def _digits() -> dict[str, np.ndarray]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = digits.images.astype(np.uint8)[..., None]
    labels = digits.target.astype(np.uint8)
    return _arrays(images[:DIGITS_TRAIN], labels[:DIGITS_TRAIN], images[DIGITS_TRAIN:], labels[DIGITS_TRAIN:])


def _cifar10(folder: Path) -> dict[str, np.ndarray]:
    """The Python version of the authors' page, in the order of its files; unpickled after its sums were verified."""
    train = [_batch(folder / f"data_batch_{i}") for i in range(1, 6)]
    images, labels = (np.concatenate(parts) for parts in zip(*train, strict=True))
    return _arrays(images, labels, *_batch(folder / "test_batch"))


def _batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    batch = pickle.loads(path.read_bytes(), encoding="latin1")
    images = batch["data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), np.array(batch["labels"], dtype=np.uint8)


def _arrays(
    train_images: np.ndarray, train_labels: np.ndarray, test_images: np.ndarray, test_labels: np.ndarray
) -> dict[str, np.ndarray]:
    return {
        "train_images": train_images,
        "train_labels": train_labels,
        "test_images": test_images,
        "answer_labels": test_labels,
    }


def split_sizes(data: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Images of each split."""
    return {"train_samples": len(data["train_images"]), "eval_samples": len(data["test_images"])}


def score(predictions: Sequence[Any], data: Mapping[str, np.ndarray]) -> dict[str, float]:
    """`{"accuracy": fraction of test images whose class is predicted}`.

    Raises BadPrediction for a prediction that is not a class number, or when there is not one for each test image.
    """
    labels = data["answer_labels"]
    if len(predictions) != len(labels):
        raise BadPrediction(0, f"{len(predictions)} predictions for {len(labels)} test images")
    classes = int(labels.max()) + 1
    for line, prediction in enumerate(predictions, 1):
        if type(prediction) is not int or not 0 <= prediction < classes:
            raise BadPrediction(line, f"{prediction!r:.40} is not a class from 0 to {classes - 1}")
    return {"accuracy": float(np.mean(np.asarray(predictions) == labels))}
