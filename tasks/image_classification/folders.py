"""ImageNet unpacked, as torchvision's ImageFolder has it: `train/n01440764/n01440764_10026.JPEG` and so on, and `val/`.

The place of a picture is `~number`, of the number in its file's name; unlike a place in an archive it is negative.
Nobody publishes sums of these files, so only their names and their count are checked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from suite.errors import UserError
from tasks.image_classification.index import PICTURES, ROW

NAME = "imagenet"  # the folder, or a link to it, in the data folder
WNID = r"n\d{8}"
TEST_NAME = r"ILSVRC2012_val_(\d{8})\.JPEG"
SPLITS = {"train": "train", "test": "val"}


def there(files: Path) -> bool:
    """Whether the folder is there."""
    return (files / NAME).is_dir()


def rows(files: Path) -> tuple[np.ndarray, np.ndarray]:
    """See `index.Source`."""
    folder = files / NAME
    classes = _classes(folder / "train")
    if lacking := sorted(set(_classes(folder / "val")) - set(classes)):
        raise UserError(f"{folder / 'val'} has a class {lacking[0]}, and {folder / 'train'} has not")
    train = []
    for label, wnid in enumerate(classes):
        found = sorted(_pictures(folder / "train" / wnid, rf"{wnid}_(0|[1-9]\d*)\.JPEG", f"{wnid}_10026.JPEG"))
        if not found:
            raise UserError(f"{folder / 'train' / wnid} has no pictures: bring them, or delete it")
        train.append(np.array([(~number, length, label) for _, number, length in found], ROW))
    test = [
        (name, ~number, length, label)
        for label, wnid in enumerate(classes)
        if (folder / "val" / wnid).exists()
        for name, number, length in _pictures(folder / "val" / wnid, TEST_NAME, "ILSVRC2012_val_00000001.JPEG")
    ]
    return np.concatenate(train), np.array([tuple(row) for _, *row in sorted(test)], ROW)


@contextmanager
def reader(files: Path, split: str) -> Iterator[Callable[[np.void], bytes]]:
    """See `index.Source`."""
    folder, classes = files / NAME / SPLITS[split], _classes(files / NAME / "train")

    def read(row: np.void) -> bytes:
        wnid, number, length = classes[row["label"]], ~int(row["place"]), int(row["length"])
        path = folder / wnid / file_name(split, wnid, number)
        try:
            content: bytes = path.read_bytes()
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from error
        if len(content) != length:
            raise UserError(
                f"{path} has {len(content)} bytes, and had {length} when the index was made: bring it again as it was, "
                f"or delete {files / PICTURES['full'].folder}, the folder of the shards and their index, to begin again"
            )
        return content

    yield read


def file_name(split: str, wnid: str, number: int) -> str:
    """The name of a picture's file."""
    return f"{wnid}_{number}.JPEG" if split == "train" else f"ILSVRC2012_val_{number:08}.JPEG"


def _classes(folder: Path) -> list[str]:
    """The names of the classes in order; other folders, such as lost+found or .ipynb_checkpoints, are none."""
    try:
        found = sorted(each.name for each in os.scandir(folder) if re.fullmatch(WNID, each.name) and each.is_dir())
    except OSError as error:
        raise UserError(f"cannot read {folder}: {error.strerror}; it has a folder for each class") from error
    if not found:  # as where the archive of validation was just unpacked
        raise UserError(f"{folder} has no folder of a class, such as n01440764: sort its pictures into theirs")
    return found


def _pictures(folder: Path, form: str, example: str) -> Iterator[tuple[str, int, int]]:
    """The names, numbers and lengths of the files of a class, in no order; names that begin with a dot are skipped."""
    try:
        for entry in os.scandir(folder):
            if entry.name.startswith("."):
                continue
            if not (found := re.fullmatch(form, entry.name)):
                raise UserError(f"{entry.path} is not called as ImageNet's pictures are: {example}")
            if not (length := entry.stat().st_size):  # as a full disk or a power cut leaves files
                raise UserError(f"{entry.path} is empty: bring it again")
            yield entry.name, int(found[1]), length
    except OSError as error:
        raise UserError(f"cannot read {error.filename or folder}: {error.strerror}") from error
