"""Pictures as JPEG files one after the other, cut into shards of one length."""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

NAME = "_jpegs_"  # in the names of the arrays that are shards: train_jpegs_0000


class Shard:
    """The bytes of one shard; those of a file are read through a descriptor of it, while other threads go on.

    A memory map would wait for a missing page with Python's lock held: on a slow disk all threads would wait.
    """

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def part(self, begin: int, end: int) -> np.ndarray:
        """The bytes from `begin` to `end`, or to the last."""
        if self._file is None:
            return self.array[begin:end]
        descriptor, offset = self._file
        length, found = min(end, len(self)) - begin, b""
        while more := os.pread(descriptor, length - len(found), offset + begin + len(found)):
            found += more
        return np.frombuffer(found, np.uint8)

    @cached_property
    def _file(self) -> tuple[int, int] | None:
        """The descriptor of its file, and where it begins there."""
        mapped = self.array
        if not (isinstance(mapped, np.memmap) and isinstance(mapped.base, mmap.mmap) and mapped.filename):
            return None
        descriptor = os.open(mapped.filename, os.O_RDONLY)
        weakref.finalize(self, os.close, descriptor)
        return descriptor, mapped.offset


class Jpegs(Sequence[np.ndarray]):
    """The JPEG files of a split, uint8 [bytes], in order, as far as they lie whole in the shards that are there.

    The bytes of the shards follow one another; other bytes may follow the last file. Without all shards there are
    fewer files than `<split>_lengths` has entries.
    """

    def __init__(self, data: Mapping[str, np.ndarray], split: str) -> None:
        self.shards = [Shard(data[name]) for name in sorted(data) if name.startswith(split + NAME)]
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
            pieces.append(self.shards[shard].part(max(begin - offset, 0), end - offset))
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
