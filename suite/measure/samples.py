"""The samples of a run's power.csv: writing them as rows, and reading them from a file that may be untrusted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from suite.store.disk import read_safely, reason

MAX_BYTES = 32 << 20  # five to ten days of one node, at a row a second
MAX_INTERVAL_MS = 10_000  # a longer pause means that nobody measured: the process was dead, or hung
COUNTERS = ("accelerator_j", "cpu_j", "dram_j")


class Sample(NamedTuple):
    """A row of power.csv: cumulative joules of each counter, and load since the row before as fractions 0 to 1.

    `utilisation` is of the device that the run trains on; `steal` and `others` are of the CPUs. None means not known.
    `node` is the number of the node measured, 0 for the leader's; the file has that column if a run has several.
    """

    time_ms: int
    accelerator_j: float | None
    cpu_j: float | None
    dram_j: float | None
    utilisation: float | None
    steal: float | None
    others: float | None
    node: int = 0


HEADER = ",".join(Sample._fields[:-1])
HEADER_OF_NODES = ",".join(Sample._fields)
_DECIMALS = (3, 3, 3, 4, 4, 4)  # of joules and of fractions
MOST_NODES = 100_000
_CELLS = r"(\d{1,15})" + r",(\d{1,15}\.\d{1,3})?" * 3 + r",([01]\.\d{1,6})?" * 3
_ROWS = {HEADER: re.compile(_CELLS, re.ASCII), HEADER_OF_NODES: re.compile(_CELLS + r",(\d{1,5})", re.ASCII)}


class SamplesError(ValueError):
    """An invalid power.csv; `line` counts from 1, and is 0 if the file as a whole is at fault."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}" if line else problem)
        self.line = line


def rounded(sample: Sample) -> Sample:
    """The sample with the precision that its row keeps."""
    cells = zip(sample[1:-1], _DECIMALS, strict=True)
    figures = (None if cell is None else round(cell, places) for cell, places in cells)
    return Sample._make([sample.time_ms, *figures, sample.node])


def format_row(sample: Sample, nodes: int = 1) -> str:
    """A row of power.csv, without newline, for a run on `nodes` nodes."""
    cells = zip(sample[1:-1], _DECIMALS, strict=True)
    figures = ["" if cell is None else f"{cell:.{places}f}" for cell, places in cells]
    return ",".join([str(sample.time_ms), *figures, *([str(sample.node)] if nodes > 1 else [])])


def header(nodes: int) -> str:
    """The first line of power.csv for a run on `nodes` nodes."""
    return HEADER_OF_NODES if nodes > 1 else HEADER


def read_samples(path: Path) -> list[Sample]:
    """Read a power.csv, see `samples_of`. Raises SamplesError also if the file cannot be read."""
    try:
        content = read_safely(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        raise SamplesError(0, f"cannot be read: {reason(error)}") from error
    return samples_of(content)


def samples_of(content: bytes) -> list[Sample]:
    """Parse a power.csv that may be untrusted. A last row without newline was cut off by a kill and is left out.

    Raises SamplesError, with the line, for a malformed line, fraction above 1 or time out of order; memory is bounded.
    """
    lines = content.split(b"\n")[:-1]
    row = _ROWS.get(lines[0][:200].decode("ascii", "replace")) if lines else None
    if row is None:
        raise SamplesError(1, f"is not the header {HEADER!r}")
    samples: list[Sample] = []
    last: dict[int, int] = {}  # the time of each node's last row
    for number, raw in enumerate(lines[1:], 2):
        match = row.fullmatch(raw[:200].decode("ascii", "replace"))
        if not match:
            raise SamplesError(number, "is not a row of samples")
        node = int(match[8]) if row.groups > 7 else 0
        sample = Sample._make([int(match[1]), *(float(cell) if cell else None for cell in match.groups()[1:7]), node])
        if any(fraction is not None and fraction > 1 for fraction in sample[4:7]):
            raise SamplesError(number, "a fraction is above 1")
        if sample.time_ms <= last.get(node, -1):
            raise SamplesError(number, "is not later than the row before")
        last[node] = sample.time_ms
        samples.append(sample)
    return samples
