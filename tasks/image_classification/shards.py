"""Shards of JPEG files, made of ImageNet from one of its sources (`full`), or of CIFAR-10 (`pilot`).

The JPEG files of the training pictures, one after the other, are one stream, which is cut into shards of one size;
those of the test pictures are another, in one file. What is left over is zeros. `index.bin` has a `ROW` for each
picture, in the order of the streams, the training pictures first.

The first training picture of every class comes first, then the second, and so on, so that a few shards have all
classes. A file is made from the index, with one picture at a time in memory. All sources of ImageNet use the same file
names, by which pictures are sorted, so the same pictures make the same shards.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np

from suite.errors import UserError
from tasks.image_classification import archives, cifar10, folders, hub
from tasks.image_classification.index import PICTURES, Pictures, Source, read_index


def bring(scale: str, files: Path) -> None:
    """See `suite.store.modules.Bringing`: `full` takes the archives, else the folders, else the Hub's copy as folders.

    Raises UserError that names all three if none is there.
    """
    if scale != "full" or not (missing := archives.missing(files)) or folders.there(files):
        return
    if not hub.there(files) and (not hub.token() or len(missing) < len(archives.MD5)):
        raise UserError(
            f"ImageNet is not in {files}. Bring one of three: {', '.join(missing)} of https://image-net.org; or "
            f"{folders.NAME}/train/ and {folders.NAME}/val/ with a folder for each class, as torchvision's ImageFolder "
            f"has them, or a link {folders.NAME} to such a folder; or {hub.ACCESS}, or put its parquet files into "
            f"{hub.NAME}/data/"
        )
    if (link := files / folders.NAME).is_symlink():
        raise UserError(f"{link} is a link to {link.readlink()}, where no folder is: mend it, or delete it")
    hub.bring(files, PICTURES[scale])


def make(scale: str, files: Path, path: str, into: Path) -> None:
    """See `suite.store.modules.Sharding`: first the index, then the shards.

    Raises UserError for a source that is not ImageNet.
    """
    pictures, name = PICTURES[scale], Path(path).stem
    if name == "index":
        train, test = _source(scale, from_folders=bool(archives.missing(files))).rows(files)
        _check(pictures, train, test)
        np.concatenate([_in_turns(train), test]).tofile(into)
        return
    split, _, number = name.partition("_")
    rows = dict(zip(("train", "test"), read_index(scale, files), strict=True))[split]
    size = pictures.shard_bytes if split == "train" else pictures.test_bytes
    source = _source(scale, from_folders=bool(rows["place"][0] < 0))
    with source.reader(files, split) as read, into.open("wb") as out:
        _write(rows, read, int(number) * size, size, out)


def _source(scale: str, from_folders: bool) -> Source:
    if scale == "pilot":
        return cifar10
    return folders if from_folders else archives


def _write(rows: np.ndarray, read: Callable[[np.void], bytes], begin: int, size: int, out: IO[bytes]) -> None:
    """Write `size` bytes of the stream of `rows`, from `begin` on; after the stream's end they are zeros."""
    ends = np.cumsum(rows["length"], dtype=np.int64)
    for i in range(int(np.searchsorted(ends, begin, "right")), len(rows)):
        first = int(ends[i] - rows["length"][i])
        if first >= begin + size:
            break
        out.write(read(rows[i])[max(begin - first, 0) : begin + size - first])
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
        if (total := rows["length"].sum(dtype=np.int64)) > room:
            raise UserError(f"{len(rows)} pictures have {total} bytes, more than the {room} of ImageNet's own files")
