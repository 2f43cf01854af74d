"""Arrays that show whether they were read: memory-mapped sparse files, whose pages Linux counts once they are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from suite.store.task import Arrays

SMAPS = Path("/proc/self/smaps")
CONTROL = "control"  # an array that is always read, to see whether this system counts it


@contextmanager
def untouched(data: Mapping[str, np.ndarray]) -> Iterator[tuple[Arrays, Callable[[], list[str]]]]:
    """Yield `data` with zeros for its `train_*` arrays, and a function that returns the names of those that were read.

    Any read counts: a copy, a move to a device, a single element. On a system that cannot tell, no names are returned.
    """
    with TemporaryDirectory() as folder:
        mapped = {CONTROL: _mapped(Path(folder), CONTROL, np.zeros(1))}
        for name, array in data.items():
            if name.startswith("train_") and array.size and array.ndim:
                mapped[name] = _mapped(Path(folder), name, array)

        def read() -> list[str]:
            before = _resident(folder)
            mapped[CONTROL].copy()
            return sorted(before) if _resident(folder) - before == {CONTROL} else []

        yield {**data, **{name: array for name, array in mapped.items() if name in data}}, read


def _mapped(folder: Path, name: str, array: np.ndarray) -> np.ndarray:
    """Zeros of the array's shape and dtype, with no page in memory."""
    with (folder / name).open("wb") as file:
        file.truncate(array.nbytes)
    return np.memmap(folder / name, array.dtype, "r", shape=array.shape)


def _resident(folder: str) -> set[str]:
    """The files of `folder` that are mapped with at least one page in memory."""
    if not SMAPS.exists():
        return set()
    found = re.finditer(rf"{re.escape(folder)}/(\w+)\n(?:.*\n)*?Rss: +(\d+) kB", SMAPS.read_text())
    return {match[1] for match in found if match[2] != "0"}
