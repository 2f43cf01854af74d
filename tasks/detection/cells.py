"""BCCD: blood smears under the microscope with boxes around their cells, in the Pascal VOC layout."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from PIL import Image

FOLDER = Path("bccd", "VOCdevkit", "VOC2007")
CLASSES = ("RBC", "WBC", "Platelets")
REDUCTION = 2  # photographs of 640x480 become 320x240, each pixel the mean of 2x2
CORNERS = ("xmin", "ymin", "xmax", "ymax")


def split(folder: Path, name: str) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Images uint8 [H, W, 3], boxes float32 [n, 4] and classes int8 [n] of the split `name`, in its file's order."""
    images, boxes, classes = [], [], []
    for path in photographs(folder, name):
        its_boxes, its_classes = _annotation(folder / "Annotations" / f"{path.stem}.xml")
        with Image.open(path) as photograph:
            images.append(np.asarray(photograph.convert("RGB").reduce(REDUCTION)))
        boxes.append(its_boxes / np.float32(REDUCTION))
        classes.append(its_classes)
    return images, boxes, classes


def photographs(folder: Path, name: str) -> list[Path]:
    """The photographs of the split `name`, in its file's order."""
    listed = (folder / "ImageSets" / "Main" / f"{name}.txt").read_text().split()
    return [folder / "JPEGImages" / f"{identifier}.jpg" for identifier in listed]


def _annotation(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Boxes float32 [n, 4] and classes int8 [n] of one file; boxes without area are left out."""
    boxes, classes = [], []
    for cell in ElementTree.parse(path).iter("object"):
        x_min, y_min, x_max, y_max = box = [int(cell.findtext(f"bndbox/{corner}", "")) for corner in CORNERS]
        if x_min < x_max and y_min < y_max:
            boxes.append(box)
            classes.append(CLASSES.index(cell.findtext("name", "")))
    return np.array(boxes, np.float32).reshape(-1, 4), np.array(classes, np.int8)
