"""Object detection: find the objects of an image; the quality is COCO's average precision on the test split.

A prediction is the list of COCO result records of one test image, `{"image_id", "category_id", "bbox", "score"}`:
`image_id` counts the test images from 0, `category_id` the classes from 0, `bbox` is [x, y, width, height] in pixels
of the prepared image. Arrays (both scales), with boxes as [x_min, y_min, x_max, y_max] in pixels, an image's boxes
first and then padding (class -1) up to the longest list of the split:
`train_images` uint8 [N, H, W, C], `train_boxes` float32 [N, L, 4], `train_classes` int8 [N, L],
`test_images` uint8 [M, H, W, C], `answer_boxes` float32 [M, K, 4] and `answer_classes` int8 [M, K].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tasks.detection import cells, scenes
from tasks.detection.precision import average_precision, checked

METRICS = {"map": (-1.0, 1.0), "ap_50": (-1.0, 1.0), "ap_75": (-1.0, 1.0)}
DIGITS = tuple("0123456789")
Split = tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]  # images, boxes and classes, one of each per image


def class_names(scale: str) -> tuple[str, ...]:
    """The names of the classes of `scale`, in the order of their numbers."""
    return DIGITS if scale == "mini" else cells.CLASSES


def prepare(scale: str, files: Path) -> dict[str, np.ndarray]:
    """The arrays of `mini` (scenes of UCI digits, 64x64x1) or `small` (BCCD, 320x240x3)."""
    if scale == "mini":
        train, test = scenes.splits()
    else:
        train, test = (cells.split(files / cells.FOLDER, name) for name in ("train", "test"))
    return {
        **{f"train_{name}": array for name, array in _arrays(train).items()},
        **{("test_images" if name == "images" else f"answer_{name}"): array for name, array in _arrays(test).items()},
    }


def _arrays(split: Split) -> dict[str, np.ndarray]:
    images, boxes, classes = split
    longest = max(map(len, boxes))
    padded_boxes = np.zeros((len(images), longest, 4), np.float32)
    padded_classes = np.full((len(images), longest), -1, np.int8)
    for i, (its_boxes, its_classes) in enumerate(zip(boxes, classes, strict=True)):
        padded_boxes[i, : len(its_boxes)] = its_boxes
        padded_classes[i, : len(its_boxes)] = its_classes
    return {"images": np.stack(images), "boxes": padded_boxes, "classes": padded_classes}


def split_sizes(data: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Images of each split."""
    return {"train_samples": len(data["train_images"]), "eval_samples": len(data["test_images"])}


def score(predictions: Sequence[Any], data: Mapping[str, np.ndarray]) -> dict[str, float]:
    """COCO's average precision: `map` over the IoU thresholds 0.50, 0.55, ..., 0.95; `ap_50` and `ap_75` at one each.

    Each is the mean over the classes of the test split. Raises BadPrediction for what is not the list of at most 100
    valid records of its image, or when there is not one list for each test image.
    """
    boxes, classes = data["answer_boxes"], data["answer_classes"]
    records = checked(predictions, len(boxes), int(classes.max()) + 1)
    height, width = data["test_images"].shape[1:3]
    by_threshold = average_precision(records, boxes, classes, height, width).mean(1)
    return {"map": float(by_threshold.mean()), "ap_50": float(by_threshold[0]), "ap_75": float(by_threshold[5])}
