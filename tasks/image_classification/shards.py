"""Shards of JPEG files, made of ImageNet's archives as its authors give them (`full`), or of CIFAR-10 (`pilot`).

The JPEG files of the training pictures, one after the other, are one stream, which is cut into shards of one size;
those of the test pictures are another, in one file. What is left over is zeros. `index.bin` has a `ROW` for each
picture, in the order of the streams, the training pictures first. A class is its place among the sorted WordNet IDs.

Of the training pictures the first of every class come first, then the second, so that some shards have all classes. A
file is made from the index, picture by picture, and holds no more than one in the memory.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from suite.errors import UserError
from tasks.image_classification import cifar10

ROW = np.dtype([("place", "<i8"), ("length", "<i4"), ("label", "<i2")])  # the place in what it was made of
QUALITY = 95  # of the pilot's JPEG files

# The sums are those of torchvision.datasets.ImageNet
TRAIN = ("ILSVRC2012_img_train.tar", "1d675b47d978889d74fa0da5fadfb00e")
TEST = ("ILSVRC2012_img_val.tar", "29b22e2961454d5413ddabcf34fc5622")
DEVKIT = ("ILSVRC2012_devkit_t12.tar.gz", "fa75699e90414af021442c21a62c3abf")


@dataclass(frozen=True)
class Pictures:
    """The pictures of a scale, and the files that are made of them: how many shards, and of how many bytes."""

    folder: str
    train: int
    test: int
    classes: int
    shards: int
    shard_bytes: int
    test_bytes: int


PICTURES = {
    "pilot": Pictures("cifar-10-jpeg", 50_000, 10_000, 10, 8, 1 << 23, 13_000_000),
    # As many bytes as the archives, which have a header of 512 bytes beside each picture
    "full": Pictures("imagenet-jpeg", 1_281_167, 50_000, 1000, 551, 1 << 28, 6_744_924_160),
}


def read_index(scale: str, files: Path) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the training and of the test pictures."""
    pictures = PICTURES[scale]
    rows = np.fromfile(files / pictures.folder / "index.bin", ROW)
    return rows[: pictures.train], rows[pictures.train :]


def make(scale: str, files: Path, path: str, into: Path) -> None:
    """See `suite.store.task.Sharding`: first the index, then the shards.

    Raises UserError for archives that are not those of ImageNet.
    """
    pictures, name = PICTURES[scale], Path(path).stem
    if name == "index":
        train, test = (_imagenet if scale == "full" else _cifar10)(files)
        _check(pictures, train, test)
        np.concatenate([_in_turns(train), test]).tofile(into)
        return
    split, _, number = name.partition("_")
    rows = dict(zip(("train", "test"), read_index(scale, files), strict=True))[split]
    size = pictures.shard_bytes if split == "train" else pictures.test_bytes
    with (_archived if scale == "full" else _encoded)(files, split) as read, into.open("wb") as out:
        _write(rows, read, int(number) * size, size, out)


def _write(rows: np.ndarray, read: Callable[[int, int], bytes], begin: int, size: int, out: IO[bytes]) -> None:
    """Write the bytes from `begin` on to before `begin` + `size` of the stream of `rows`; zeros after its end."""
    ends = np.cumsum(rows["length"], dtype=np.int64)
    for i in range(int(np.searchsorted(ends, begin, "right")), len(rows)):
        first = int(ends[i] - rows["length"][i])
        if first >= begin + size:
            break
        picture = read(int(rows["place"][i]), int(rows["length"][i]))
        out.write(picture[max(begin - first, 0) : begin + size - first])
    out.truncate(size)


def _in_turns(rows: np.ndarray) -> np.ndarray:
    """The first row of every class, then the second of every class, and so on."""
    by_class = rows[np.argsort(rows["label"], kind="stable")]
    labels = by_class["label"]
    turns = np.arange(len(rows)) - np.searchsorted(labels, labels)
    return by_class[np.argsort(turns, kind="stable")]


def _check(pictures: Pictures, train: np.ndarray, test: np.ndarray) -> None:
    found = [len(train), len(test), len(np.union1d(train["label"], test["label"]))]
    if found != (right := [pictures.train, pictures.test, pictures.classes]):
        raise UserError(f"training pictures, test pictures and classes are {found}, not {right}")
    for rows, room in ((train, pictures.shards * pictures.shard_bytes), (test, pictures.test_bytes)):
        assert rows["length"].sum(dtype=np.int64) <= room, f"{room} bytes are too few for the shards"


# --- ImageNet -----------------------------------------------------------------------------------------------------


def _imagenet(files: Path) -> tuple[np.ndarray, np.ndarray]:
    """The rows of ILSVRC 2012: where each picture lies in the archives of training and validation."""
    for name, md5 in (TRAIN, TEST, DEVKIT):
        with _opened(files / name) as file:
            if (found := hashlib.file_digest(file, "md5").hexdigest()) != md5:
                raise UserError(f"{files / name} is corrupt: its md5 is {found}, not {md5}")
    train = []
    with tarfile.open(files / TRAIN[0], "r:") as archive:
        for label, each in enumerate(sorted(archive, key=lambda member: member.name)):  # n01440764.tar and so on
            with tarfile.open(fileobj=archive.extractfile(each), mode="r:") as pictures:
                rows = [(each.offset_data + place, length, label) for place, length in _members(pictures)]
                train.append(np.array(rows, ROW))
    with tarfile.open(files / TEST[0], "r:") as archive:
        places = list(_members(archive))
    test = [(*row, label) for row, label in zip(places, _test_labels(files / DEVKIT[0]), strict=True)]
    return np.concatenate(train), np.array(test, ROW)


def _members(archive: tarfile.TarFile) -> Iterator[tuple[int, int]]:
    """Where the files of an archive lie in it, and how long they are, by their names."""
    for member in sorted(archive, key=lambda member: member.name):
        yield member.offset_data, member.size


def _test_labels(devkit: Path) -> list[int]:
    """The classes of the validation pictures: the kit has them in numbers of its own, of which it names WordNet IDs."""
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
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; bring it from https://image-net.org") from error


@contextmanager
def _archived(files: Path, split: str) -> Iterator[Callable[[int, int], bytes]]:
    """Reads so many bytes of an archive of ImageNet."""
    with _opened(files / (TRAIN if split == "train" else TEST)[0]) as archive:

        def read(place: int, length: int) -> bytes:
            archive.seek(place)
            content: bytes = archive.read(length)
            return content

        yield read


# --- CIFAR-10 -----------------------------------------------------------------------------------------------------


def _cifar10(files: Path) -> tuple[np.ndarray, np.ndarray]:
    """The rows of CIFAR-10's pictures as JPEG files; their place is their number."""
    train, train_labels, test, test_labels = cifar10.read(files / "cifar-10-batches-py")

    def rows(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return np.array([(i, len(_jpeg(images[i])), label) for i, label in enumerate(labels)], ROW)

    return rows(train, train_labels), rows(test, test_labels)


@contextmanager
def _encoded(files: Path, split: str) -> Iterator[Callable[[int, int], bytes]]:
    """Makes the JPEG file of a picture of CIFAR-10."""
    train, _, test, _ = cifar10.read(files / "cifar-10-batches-py")
    images = train if split == "train" else test
    yield lambda place, length: _jpeg(images[place])


def _jpeg(image: np.ndarray) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=QUALITY)
    return file.getvalue()
