"""ImageNet as its authors publish it: an archive of training archives, one for validation, and a kit with its labels.

The place of a picture is where its file begins in the archive of its split.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from suite.errors import UserError
from tasks.image_classification.index import ROW

HOME = "https://image-net.org"
TRAIN, TEST, DEVKIT = "ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar", "ILSVRC2012_devkit_t12.tar.gz"
MD5 = {  # of torchvision.datasets.ImageNet
    TRAIN: "1d675b47d978889d74fa0da5fadfb00e",
    TEST: "29b22e2961454d5413ddabcf34fc5622",
    DEVKIT: "fa75699e90414af021442c21a62c3abf",
}


def missing(files: Path) -> list[str]:
    """The archives that are not there."""
    return [name for name in MD5 if not (files / name).exists()]


def rows(files: Path) -> tuple[np.ndarray, np.ndarray]:
    """See `index.Source`. The archives are first read in full, to verify their md5 sums."""
    for name, md5 in MD5.items():
        with _opened(files / name) as file:
            if (found := hashlib.file_digest(file, "md5").hexdigest()) != md5:
                raise UserError(f"{files / name} is corrupt: its md5 is {found}, not {md5}")
    train = []
    with tarfile.open(files / TRAIN, "r:") as archive:
        for label, each in enumerate(sorted(archive, key=lambda member: member.name)):  # n01440764.tar and so on
            with tarfile.open(fileobj=archive.extractfile(each), mode="r:") as pictures:
                places = [(each.offset_data + place, length, label) for place, length in _members(pictures)]
                train.append(np.array(places, ROW))
    with tarfile.open(files / TEST, "r:") as archive:
        members = list(_members(archive))
    test = [(*place, label) for place, label in zip(members, _test_labels(files / DEVKIT), strict=True)]
    return np.concatenate(train), np.array(test, ROW)


@contextmanager
def reader(files: Path, split: str) -> Iterator[Callable[[np.void], bytes]]:
    """See `index.Source`."""
    path = files / (TRAIN if split == "train" else TEST)
    with _opened(path) as archive:

        def read(row: np.void) -> bytes:
            archive.seek(int(row["place"]))
            content: bytes = archive.read(int(row["length"]))
            if len(content) != row["length"]:
                raise UserError(f"{path} ends within a picture or before it: bring it again from {HOME}")
            return content

        yield read


def _members(archive: tarfile.TarFile) -> Iterator[tuple[int, int]]:
    """The offset and the length of each file in an archive, in the order of their names."""
    for member in sorted(archive, key=lambda member: member.name):
        yield member.offset_data, member.size


def _test_labels(devkit: Path) -> list[int]:
    """The classes of the validation pictures; the kit has them in its own numbers, which it maps to WordNet IDs."""
    from scipy.io import loadmat

    with tarfile.open(devkit) as kit:

        def content(name: str) -> bytes:
            file = kit.extractfile(f"ILSVRC2012_devkit_t12/data/{name}")
            assert file
            return file.read()

        synsets = loadmat(io.BytesIO(content("meta.mat")), squeeze_me=True)["synsets"]
        truth = content("ILSVRC2012_validation_ground_truth.txt").split()
    names = {int(each["ILSVRC2012_ID"]): str(each["WNID"]) for each in synsets if each["num_children"] == 0}
    label = {name: i for i, name in enumerate(sorted(names.values()))}
    return [label[names[int(number)]] for number in truth]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; bring it from {HOME}") from error
    with file:
        yield file
