"""Image classification: predict the class of an image; the quality is top-1 accuracy on the test split.

A prediction is the class number of one test image. Arrays of `mini` and `small`:
`train_images` uint8 [N, H, W, C], `train_labels` uint8 [N], `test_images` uint8 [M, H, W, C] and `answer_labels`
uint8 [M].

In `pilot` and `full` images are JPEG files of any size, in shards that `shards.py` makes and `jpegs.Jpegs` reads:
`train_jpegs_0000` and so on and `test_jpegs_0000`, uint8, hold the files one after the other, `train_lengths` and
`test_lengths` int32 their bytes, `train_labels` and `answer_labels` uint16 their classes, and `classes` uint16 [C] the
numbers of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from suite.errors import BadPrediction
from tasks.image_classification import cifar10
from tasks.image_classification.index import PICTURES, read_index
from tasks.image_classification.jpegs import Jpegs

METRICS = {"accuracy": (0.0, 1.0)}
DIGITS_TRAIN = 1000  # writers come one after another in the file: the rest is mostly other hands


def prepare(scale: str, files: Path) -> dict[str, np.ndarray]:
    """The arrays of `mini` (UCI digits, 1000 + 797 images 8x8x1 of 0..16), `small` (CIFAR-10), or a sharded scale."""
    if scale == "mini":
        return _digits()
    return _arrays(*cifar10.read(files / cifar10.FOLDER)) if scale == "small" else _jpegs(scale, files)


def _digits() -> dict[str, np.ndarray]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = digits.images.astype(np.uint8)[..., None]
    labels = digits.target.astype(np.uint8)
    return _arrays(images[:DIGITS_TRAIN], labels[:DIGITS_TRAIN], images[DIGITS_TRAIN:], labels[DIGITS_TRAIN:])


def _jpegs(scale: str, files: Path) -> dict[str, np.ndarray]:
    """The arrays beside the shards, from their index."""
    train, test = read_index(scale, files)
    return {
        "classes": np.arange(PICTURES[scale].classes, dtype=np.uint16),
        "train_lengths": np.ascontiguousarray(train["length"]),
        "train_labels": train["label"].astype(np.uint16),
        "test_lengths": np.ascontiguousarray(test["length"]),
        "answer_labels": test["label"].astype(np.uint16),
    }


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
    if "train_lengths" in data:
        return {"train_samples": len(Jpegs(data, "train")), "eval_samples": len(Jpegs(data, "test"))}
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
