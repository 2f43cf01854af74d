"""Energy from the samples of a run's power.csv: from counters where there are any, else a labelled estimate."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from suite.store.disk import read_safely, reason

MAX_BYTES = 32 << 20  # of one node five to ten days, at a row a second
MAX_INTERVAL_MS = 10_000  # a longer pause means that nobody measured: the process was dead, or hung
COUNTERS = ("accelerator_j", "cpu_j", "dram_j")
NVML, RAPL = "nvml", "rapl"
ESTIMATED = "estimated"  # the source of an energy that is no measurement
MIN_COVERAGE = 0.95  # of a run's time, for an energy that stands for the whole of it


class Sample(NamedTuple):
    """A row of power.csv: cumulative joules of each counter, and load since the row before as fractions 0 to 1.

    `utilisation` is of the device that the run trains on; `steal` and `others` are of the CPUs. None: not known. All
    are of the node of that number, the leader's being 0; the file has that column where a run has several.
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
    """A power.csv that is not one; `line` counts from 1, and is 0 when the file as a whole is at fault."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}" if line else problem)
        self.line = line


@dataclass(frozen=True)
class Energy:
    """What a run drew. `joules` are those measured: the part `coverage` (0 to 1) of its time; the rest is not guessed.

    `source` is the library of the accelerators, rapl, both (nvml+rapl), estimated, or None with `joules` None. `covers`
    names the counters that were read, on every node. `interval_s` is the median time between the samples that they rest
    on, that of the node where it is longest; `mean_w` the mean power while it was measured.
    """

    joules: float | None
    source: str | None
    interval_s: float | None
    coverage: float
    mean_w: float | None
    covers: tuple[str, ...] = ()


UNKNOWN = Energy(joules=None, source=None, interval_s=None, coverage=0.0, mean_w=None)


class _Interval(NamedTuple):
    """Two neighbouring samples, and the milliseconds between them that lie within the run."""

    first: Sample
    last: Sample
    within_ms: int

    @property
    def length_s(self) -> float:
        return (self.last.time_ms - self.first.time_ms) / 1000


def energy(
    samples: Sequence[Sample],
    start_ms: int,
    stop_ms: int,
    ceiling_w: float | None,
    nodes: int = 1,
    library: str | None = NVML,
) -> Energy:
    """The energy of all nodes between two times: differences of counters; where a node has none, `ceiling_w`, that of
    each node, times utilisation, integrated.

    A counter that runs backwards (it wrapped or was reset) and a pause of more than MAX_INTERVAL_MS count as not
    measured. `library` is what the accelerators were measured with, see `Machine`.
    """
    of: dict[int, list[Sample]] = {}
    for sample in samples:
        of.setdefault(sample.node, []).append(sample)
    seen = [own for node, own in sorted(of.items()) if node < nodes]
    each = [_of_node(own, start_ms, stop_ms, ceiling_w, library or NVML) for own in seen]
    if len(each) < nodes:
        each.append(UNKNOWN)  # which stands for all nodes that left no sample: a stranger may claim many
    known = [used for used in each if used.joules is not None]
    if len(each) == 1 or not known:
        return each[0]
    sources = dict.fromkeys(part for used in known for part in (used.source or "").split("+"))
    return Energy(
        joules=sum(used.joules or 0.0 for used in known),
        source="+".join(sources),
        interval_s=max(used.interval_s or 0.0 for used in known),
        coverage=min(used.coverage for used in each),
        mean_w=sum(used.mean_w or 0.0 for used in known),
        covers=tuple(name for name in each[0].covers if all(name in used.covers for used in each)),
    )


def _of_node(samples: Sequence[Sample], start_ms: int, stop_ms: int, ceiling_w: float | None, library: str) -> Energy:
    """The energy of one node, of which all samples are."""
    intervals = []
    for first, last in pairwise(samples):
        within_ms = min(last.time_ms, stop_ms) - max(first.time_ms, start_ms)
        if within_ms > 0 and last.time_ms - first.time_ms <= MAX_INTERVAL_MS:
            intervals.append(_Interval(first, last, within_ms))

    parts = {name: _measured(intervals, _counter(name)) for name in COUNTERS}
    parts = {name: part for name, part in parts.items() if part}
    source = "+".join(dict.fromkeys(library if name == COUNTERS[0] else RAPL for name in parts))
    covers = tuple(name.removesuffix("_j") for name in parts)
    if not parts and ceiling_w is not None:
        estimate = _measured(intervals, lambda _, last: _scaled(last.utilisation, ceiling_w))
        parts, source = {ESTIMATED: estimate} if estimate else {}, ESTIMATED
    if not parts:
        return UNKNOWN
    joules = {name: sum(watts * i.within_ms / 1000 for watts, i in part) for name, part in parts.items()}
    measured_ms = {name: sum(i.within_ms for _, i in part) for name, part in parts.items()}
    return Energy(
        joules=sum(joules.values()),
        source=source,
        interval_s=statistics.median(i.length_s for part in parts.values() for _, i in part),
        coverage=min(measured_ms.values()) / (stop_ms - start_ms),
        mean_w=sum(joules[name] * 1000 / measured_ms[name] for name in parts),
        covers=covers,
    )


def _measured(
    intervals: Sequence[_Interval], watts: Callable[[Sample, Sample], float | None]
) -> list[tuple[float, _Interval]]:
    """The intervals in which `watts` is known, each after its watts."""
    return [(power, i) for i in intervals if (power := watts(i.first, i.last)) is not None]


def _counter(name: str) -> Callable[[Sample, Sample], float | None]:
    def watts(first: Sample, last: Sample) -> float | None:
        before, after = getattr(first, name), getattr(last, name)
        if before is None or after is None or after < before:
            return None
        return float(after - before) * 1000 / (last.time_ms - first.time_ms)

    return watts


def _scaled(utilisation: float | None, ceiling_w: float) -> float | None:
    return None if utilisation is None else utilisation * ceiling_w


def rounded(sample: Sample) -> Sample:
    """The sample as it is read again from its row."""
    cells = zip(sample[1:-1], _DECIMALS, strict=True)
    figures = (None if cell is None else round(cell, places) for cell, places in cells)
    return Sample._make([sample.time_ms, *figures, sample.node])


def format_row(sample: Sample, nodes: int = 1) -> str:
    """A row of power.csv, without newline, of a run of so many nodes."""
    cells = zip(sample[1:-1], _DECIMALS, strict=True)
    figures = ["" if cell is None else f"{cell:.{places}f}" for cell, places in cells]
    return ",".join([str(sample.time_ms), *figures, *([str(sample.node)] if nodes > 1 else [])])


def header(nodes: int) -> str:
    """The first line of the power.csv of so many nodes."""
    return HEADER_OF_NODES if nodes > 1 else HEADER


def read_samples(path: Path) -> list[Sample]:
    """The samples of a power.csv, as `samples_of` its bytes. Raises SamplesError also where it cannot be read."""
    try:
        content = read_safely(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        raise SamplesError(0, f"cannot be read: {reason(error)}") from error
    return samples_of(content)


def samples_of(content: bytes) -> list[Sample]:
    """The samples of a power.csv that may be a stranger's. A last row without newline was torn by a kill: left out.

    Raises SamplesError, with the line, for anything that `format_row` would not have written; memory is bounded.
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
