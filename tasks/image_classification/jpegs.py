"""Pictures as JPEG files one after the other, cut into shards of one length."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence

import numpy as np

NAME = "_jpegs_"  # in the names of the arrays that are shards: train_jpegs_0000


class Jpegs(Sequence[np.ndarray]):
    """The JPEG files, uint8 [bytes], of a split that lie whole in the shards that are there, in order.

    The bytes of the shards follow one another; after the last file there may be others. A part of the shards, or
    none, holds fewer files than `<split>_lengths` tells of.
    """

    def __init__(self, data: Mapping[str, np.ndarray], split: str) -> None:
        self.shards = [data[name] for name in sorted(data) if name.startswith(split + NAME)]
        self.shard_ends = np.cumsum([len(shard) for shard in self.shards])
        there = int(self.shard_ends[-1]) if self.shards else 0
        ends = np.cumsum(data[f"{split}_lengths"], dtype=np.int64)
        self.ends = ends[: np.searchsorted(ends, there, "right")]

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, i: int) -> np.ndarray:  # type: ignore[override]
        begin, end = int(self.ends[i - 1]) if i else 0, int(self.ends[i])
        first, last = np.searchsorted(self.shard_ends, [begin, end - 1], "right")
        pieces = []
        for shard in range(first, last + 1):
            offset = int(self.shard_ends[shard - 1]) if shard else 0
            pieces.append(_part(self.shards[shard], max(begin - offset, 0), end - offset))
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _part(shard: np.ndarray, begin: int, end: int) -> np.ndarray:
    """shard[begin:end]; that of a file is read from it, while other threads go on.

    A page that a memory map does not have yet is waited for with Python's lock held: on a slow disk by all threads.
    """
    if not (isinstance(shard, np.memmap) and isinstance(shard.base, mmap.mmap) and shard.filename):
        return shard[begin:end]
    with open(shard.filename, "rb", buffering=0) as file:
        file.seek(shard.offset + begin)
        return np.frombuffer(file.read(min(end, len(shard)) - begin), np.uint8)
