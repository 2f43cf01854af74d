"""COCO's average precision of result records, by faster-coco-eval (bit-equal to pycocotools, in C++)."""

from __future__ import annotations

from collections.abc import Sequence
from reprlib import repr as brief  # of values of any depth and length
from typing import Any

import numpy as np
from faster_coco_eval.core.coco import COCO
from faster_coco_eval.core.faster_eval_api import COCOeval_faster

from suite.errors import BadPrediction

MAX_DETECTIONS = 100  # COCO's
LARGEST = 1e6  # coordinates beyond are refused, so that areas stay finite
FIELDS = {"image_id", "category_id", "bbox", "score"}


def checked(predictions: Sequence[Any], images: int, classes: int) -> list[dict[str, Any]]:
    """The records of all images in one list.

    Raises BadPrediction unless there is one list per image, of at most 100 records with exactly the COCO fields, the
    number of the image, a known category, a finite box whose width and height are not negative, and a score from 0 to
    1. It names the first prediction that is at fault.
    """
    if len(predictions) != images:
        raise BadPrediction(0, f"{len(predictions)} predictions for {images} test images")
    records: list[dict[str, Any]] = []
    for image, found in enumerate(predictions):
        if type(found) is not list or len(found) > MAX_DETECTIONS:
            raise BadPrediction(image + 1, f"{brief(found)} is not a list of at most {MAX_DETECTIONS} COCO records")
        for record in found:
            if problem := _fault(record, image, classes):
                raise BadPrediction(image + 1, problem)
        records += found
    return records


def _fault(record: Any, image: int, classes: int) -> str:
    """What is wrong with one record of image number `image`; empty if nothing is."""
    if type(record) is not dict or record.keys() != FIELDS:
        return f"{brief(record)} is not a record of {', '.join(sorted(FIELDS))}"
    category, box, score = record["category_id"], record["bbox"], record["score"]
    if type(record["image_id"]) is not int or record["image_id"] != image:
        return f"image_id {brief(record['image_id'])} is not {image}"
    if type(category) is not int or not 0 <= category < classes:
        return f"category_id {brief(category)} is not a class from 0 to {classes - 1}"
    if type(box) is not list or len(box) != 4 or not all(_is_number(value, LARGEST) for value in box):
        return f"bbox {brief(box)} is not four numbers x, y, width, height"
    if min(box[2:]) < 0:
        return f"bbox {brief(box)} has a negative width or height"
    if not _is_number(score, 1) or score < 0:
        return f"score {brief(score)} is not a number from 0 to 1"
    return ""


def _is_number(value: Any, bound: float) -> bool:
    return type(value) in (int, float) and -bound <= value <= bound


def average_precision(
    records: list[dict[str, Any]], boxes: np.ndarray, classes: np.ndarray, height: int, width: int
) -> np.ndarray:
    """The average precision at each of COCO's ten IoU thresholds for each class that has objects: [10, classes].

    `records` are valid; `boxes` [M, K, 4] and `classes` [M, K] are the true ones, padded with class -1.
    """
    present = classes >= 0
    corners = boxes[present].astype(np.float64)
    sizes = corners[:, 2:] - corners[:, :2]
    truths = [
        {"id": i, "image_id": image, "category_id": category, "bbox": [*xy, *size], "area": size[0] * size[1]}
        | {"iscrowd": 0}
        for i, (image, category, xy, size) in enumerate(
            zip(
                np.nonzero(present)[0].tolist(),
                classes[present].tolist(),
                corners[:, :2].tolist(),
                sizes.tolist(),
                strict=True,
            ),
            1,
        )
    ]
    truth = COCO(
        {
            "images": [{"id": i, "height": height, "width": width} for i in range(len(boxes))],
            "categories": [{"id": i} for i in np.unique(classes[present]).tolist()],
            "annotations": truths,
        }
    )
    evaluation = COCOeval_faster(truth, truth.loadRes([dict(record) for record in records]), "bbox")
    evaluation.params.areaRng, evaluation.params.areaRngLbl = evaluation.params.areaRng[:1], ["all"]
    evaluation.params.maxDets = [MAX_DETECTIONS]
    evaluation.evaluate()
    evaluation.accumulate()
    precision: np.ndarray = evaluation.eval["precision"][:, :, :, 0, 0].mean(1)  # over COCO's 101 recalls
    return precision
