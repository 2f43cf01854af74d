"""BCCD: blood smears under the microscope with boxes around their cells, in the Pascal VOC layout."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from PIL import Image, UnidentifiedImageError

from suite.errors import UserError

CLASSES = ("RBC", "WBC", "Platelets")
REDUCTION = 2  # photographs of 640x480 become 320x240, each pixel the mean of 2x2
CORNERS = ("xmin", "ymin", "xmax", "ymax")


def split(folder: Path, name: str) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Images uint8 [H, W, 3], boxes float32 [n, 4] and classes int8 [n] of the split `name`, in its file's order.

    Raises UserError that names the file of what cannot be read.
    """
    listed = folder / "ImageSets" / "Main" / f"{name}.txt"
    try:
        identifiers = listed.read_text().split()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{listed}: cannot be read ({error}). Bring the file again.") from error
    if not identifiers:
        raise UserError(f"{listed}: lists no images. Bring the file again.")
    images, boxes, classes = [], [], []
    for identifier in identifiers:
        size, its_boxes, its_classes = annotation(folder / "Annotations" / f"{identifier}.xml")
        images.append(photograph(folder / "JPEGImages" / f"{identifier}.jpg", size))
        boxes.append(its_boxes / np.float32(REDUCTION))
        classes.append(its_classes)
    return images, boxes, classes


def photograph(path: Path, size: tuple[int, int]) -> np.ndarray:
    """The pixels uint8 [H, W, 3] of the image in `path`, reduced by area averaging.

    Raises UserError when it cannot be decoded or its (width, height) is not `size`, which its annotation states.
    """
    try:
        with Image.open(path) as image:
            if image.size != size:
                raise UserError(
                    f"{path}: {image.width}x{image.height} pixels, expected {size[0]}x{size[1]} as its annotation "
                    "says. Bring the file again."
                )
            return np.asarray(image.convert("RGB").reduce(REDUCTION))
    except (UnidentifiedImageError, OSError, SyntaxError) as error:
        raise UserError(f"{path}: not an image that can be read ({error}). Bring the file again.") from error


def annotation(path: Path) -> tuple[tuple[int, int], np.ndarray, np.ndarray]:
    """(width, height), boxes float32 [n, 4] and classes int8 [n] of one file; boxes without area are left out.

    Raises UserError for what is not a VOC annotation, for a class that is not known and for a box outside the image.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if "<!DOCTYPE" in text:  # entities can expand without bound
            raise UserError(f"{path}: has a document type, expected plain VOC annotations. Bring the file again.")
        root = ElementTree.fromstring(text)
        width, height = (_integer(root, f"size/{side}") for side in ("width", "height"))
        objects = [
            (_text(o, "name"), [_integer(o, f"bndbox/{corner}") for corner in CORNERS]) for o in root.iter("object")
        ]
    except (ElementTree.ParseError, UnicodeDecodeError, ValueError, OSError) as error:
        raise UserError(f"{path}: not a VOC annotation ({error}). Bring the file again.") from error
    boxes, classes = [], []
    for number, (name, box) in enumerate(objects, 1):
        if name not in CLASSES:
            raise UserError(f"{path}: object {number} is {name!r:.40}, expected one of {', '.join(CLASSES)}.")
        x_min, y_min, x_max, y_max = box
        if not (0 <= x_min <= x_max <= width and 0 <= y_min <= y_max <= height):
            raise UserError(f"{path}: object {number} has the box {box}, expected it within {width}x{height} pixels.")
        if x_min < x_max and y_min < y_max:
            boxes.append(box)
            classes.append(CLASSES.index(name))
    return (width, height), np.array(boxes, np.float32).reshape(-1, 4), np.array(classes, np.int8)


def _text(element: ElementTree.Element, name: str) -> str:
    found = element.findtext(name)
    if found is None:
        raise ValueError(f"no {name}")
    return found


def _integer(element: ElementTree.Element, name: str) -> int:
    return int(_text(element, name))
