"""Arrays whose reading leaves a trace: files without content, mapped; Linux counts the pages that were looked at."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from suite.store.task import Arrays

SMAPS = Path("/proc/self/smaps")
CONTROL = "control"  # an array that is read, to see whether this system tells


@contextmanager
def untouched(data: Mapping[str, np.ndarray]) -> Iterator[tuple[Arrays, Callable[[], list[str]]]]:
    """Zeros in the place of the `train_*` arrays of `data`, and what tells the names of those that were read.

    However they were read: copied, moved to a device, or one element of them. Where the system does not tell, none.
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
    """Zeros of the array's shape and dtype, of which no page is in memory."""
    with (folder / name).open("wb") as file:
        file.truncate(array.nbytes)
    return np.memmap(folder / name, array.dtype, "r", shape=array.shape)


def _resident(folder: str) -> set[str]:
    """The files of `folder` that are mapped with at least one page in memory."""
    if not SMAPS.exists():
        return set()
    found = re.finditer(rf"{re.escape(folder)}/(\w+)\n(?:.*\n)*?Rss: +(\d+) kB", SMAPS.read_text())
    return {match[1] for match in found if match[2] != "0"}
