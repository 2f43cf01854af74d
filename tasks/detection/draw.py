"""Draw what a run found: `python -m tasks.detection.draw RUN FILE.jpg`.

RUN is a run's evidence folder. The picture shows the first test images with the true boxes in white and the predicted
ones, those with a score of at least 0.3, in the colour of their class.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from suite import config
from suite.errors import OneLineParser, UserError, command
from suite.store.arrays import prepared
from suite.store.task import load_task
from tasks.detection import class_names
from tasks.evidence import predicted, require_scored

LOWEST_SCORE = 0.3
LAYOUT = {"mini": (2, 4, 4), "small": (2, 2, 2)}  # rows, columns and enlargement
COLOURS = ["#ff5c5c", "#ffd166", "#4cc9f0", "#72efdd", "#f78fb3", "#b5e48c", "#ffa552", "#c77dff", "#90be6d", "#e0aaff"]


def main(argv: list[str]) -> int:
    """Draw; see the module."""
    parser = OneLineParser(prog="python -m tasks.detection.draw", description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--data-dir", help="where the dataset lies; default: $SUITE_DATA, else the user's cache folder")
    given = parser.parse_args(argv)
    scale, predictions = predicted(given.run, "detection", LAYOUT)
    task = load_task("detection")
    data = prepared(config.benchmark("detection", scale), task, given.data_dir)
    require_scored(given.run, task, predictions, data)
    rows, columns, factor = LAYOUT[scale]
    pictures = [
        picture(image, boxes, found, class_names(scale), factor)
        for image, boxes, found, _ in zip(
            data["test_images"], data["answer_boxes"], predictions, range(rows * columns), strict=False
        )
    ]
    sheet = np.concatenate([np.concatenate(pictures[r * columns :][:columns], 1) for r in range(rows)])
    try:
        Image.fromarray(sheet).save(given.file, quality=80, optimize=True)
    except ValueError as error:
        raise UserError(f"{given.file}: {error}: give it the ending of a picture, such as .jpg") from error
    return 0


def picture(
    image: np.ndarray, boxes: np.ndarray, found: list[dict[str, Any]], names: tuple[str, ...], factor: int
) -> np.ndarray:
    """One image uint8 [H, W, C], enlarged, with its true boxes [n, 4] and the records that were found."""
    height, width, channels = image.shape
    coloured = Image.fromarray(image.repeat(3 // channels, -1))
    canvas = coloured.resize((width * factor, height * factor), Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(canvas)
    for box in boxes[boxes[:, 2] > boxes[:, 0]]:
        pen.rectangle((box * factor).tolist(), outline="#ffffff")
    for record in found:
        if record["score"] >= LOWEST_SCORE:
            x, y, w, h = (value * factor for value in record["bbox"])
            colour = COLOURS[record["category_id"]]
            pen.rectangle((x, y, x + w, y + h), outline=colour, width=2)
            pen.text((x + 3, y + 1), names[record["category_id"]], fill=colour)
    return np.asarray(canvas)


if __name__ == "__main__":
    command(main)
