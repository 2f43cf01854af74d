"""How the network's outputs become COCO result records, for both frameworks, in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_impls.detection.shared import Hyperparameters

LOWEST_SCORE = 0.01  # detections below change average precision by next to nothing


def records(heat: np.ndarray, sides: np.ndarray, first: int, hyper: Hyperparameters) -> list[list[dict[str, Any]]]:
    """The records of each image, the best first; `first` is the number of the first image.

    `heat` [B, h, w, classes] holds scores from 0 to 1, `sides` [B, h, w, 4] the pixels from a cell's centre to the
    sides of its box. A cell is a candidate where no neighbour has more heat (CenterNet); greedy non-maximum
    suppression, class by class, chooses among the candidates.
    """
    height, width = heat.shape[1:3]
    padded = np.pad(heat, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    peaks = (heat == windows.max((-2, -1))) & (heat >= LOWEST_SCORE)
    frame = np.array([width, height, width, height]) * hyper.stride
    found = []
    for i in range(len(heat)):
        y, x, classes = np.nonzero(peaks[i])
        scores = heat[i, y, x, classes]
        order = np.argsort(-scores, kind="stable")[: 4 * hyper.max_detections]
        x, y, classes, scores = x[order], y[order], classes[order], scores[order]
        points = (np.stack([x, y], 1) + 0.5) * hyper.stride
        its_sides = sides[i, y, x]
        boxes = np.clip(np.concatenate([points - its_sides[:, :2], points + its_sides[:, 2:]], 1), 0, frame)
        kept = suppress(boxes, classes, hyper.nms_iou)[: hyper.max_detections]
        found.append(
            [
                {
                    "image_id": first + i,
                    "category_id": int(classes[k]),
                    "bbox": [round(float(v), 2) for v in (*boxes[k, :2], *(boxes[k, 2:] - boxes[k, :2]))],
                    "score": round(float(scores[k]), 4),
                }
                for k in kept
            ]
        )
    return found


def suppress(boxes: np.ndarray, classes: np.ndarray, iou: float) -> np.ndarray:
    """The indices, in order, of the boxes [N, 4], best first, that overlap no better kept box of their class by more
    than `iou`."""
    sides = np.minimum(boxes[:, None, 2:], boxes[:, 2:]) - np.maximum(boxes[:, None, :2], boxes[:, :2])
    shared = np.clip(sides, 0, None).prod(-1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    rivals = (shared > iou * (areas[:, None] + areas - shared)) & (classes[:, None] == classes)
    keep = np.ones(len(boxes), bool)
    for k in range(len(boxes)):
        if keep[k]:
            keep[k + 1 :] &= ~rivals[k, k + 1 :]
    return np.flatnonzero(keep)
