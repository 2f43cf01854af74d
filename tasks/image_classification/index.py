"""The index of the shards: which pictures there are, in which order, and where each is found in its source."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

ROW = np.dtype([("place", "<i8"), ("length", "<i4"), ("label", "<i2")])  # a class is its place among sorted WordNet IDs


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


class Source(Protocol):
    """A module that reads what the shards are made of."""

    def rows(self, files: Path) -> tuple[np.ndarray, np.ndarray]:
        """The `ROW`s of the training and of the test pictures, in each class in the order of their files' names.

        Raises UserError for files that are missing or not what they should be.
        """
        ...

    def reader(self, files: Path, split: str) -> AbstractContextManager[Callable[[np.void], bytes]]:
        """A function that reads the JPEG file of a row of `train` or `test`. Raises UserError if it is gone."""
        ...


def read_index(scale: str, files: Path) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the training and of the test pictures."""
    pictures = PICTURES[scale]
    rows = np.fromfile(files / pictures.folder / "index.bin", ROW)
    return rows[: pictures.train], rows[pictures.train :]
