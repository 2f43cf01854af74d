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

MAX_BYTES = 32 << 20  # some eight days at one row a second
MAX_INTERVAL_MS = 10_000  # a longer pause means that nobody measured: the process was dead, or hung
COUNTERS = {"accelerator_j": "nvml", "cpu_j": "rapl", "dram_j": "rapl"}
ESTIMATED = "estimated"
MIN_COVERAGE = 0.95  # of a run's time, for an energy that stands for the whole of it


class Sample(NamedTuple):
    """A row of power.csv: cumulative joules of each counter, and load since the row before as fractions 0 to 1.

    `utilisation` is of the device that the run trains on; `steal` and `others` are of the CPUs. None: not known.
    """

    time_ms: int
    accelerator_j: float | None
    cpu_j: float | None
    dram_j: float | None
    utilisation: float | None
    steal: float | None
    others: float | None


HEADER = ",".join(Sample._fields)
_DECIMALS = (3, 3, 3, 4, 4, 4)  # of joules and of fractions
_ROW = re.compile(r"(\d{1,15})" + r",(\d{1,15}\.\d{1,3})?" * 3 + r",([01]\.\d{1,6})?" * 3, re.ASCII)


class SamplesError(ValueError):
    """A power.csv that is not one; `line` counts from 1, and is 0 when the file as a whole is at fault."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}" if line else problem)
        self.line = line


@dataclass(frozen=True)
class Energy:
    """What a run drew. `joules` are those measured: the part `coverage` (0 to 1) of its time; the rest is not guessed.

    `source` is nvml, rapl, nvml+rapl, estimated, or None with `joules` None. `covers` names the counters that were
    read. `interval_s` is the median time between the samples that they rest on; `mean_w` the mean power while it was
    measured.
    """

    joules: float | None
    source: str | None
    interval_s: float | None
    coverage: float
    mean_w: float | None
    covers: tuple[str, ...] = ()


class _Interval(NamedTuple):
    """Two neighbouring samples, and the milliseconds between them that lie within the run."""

    first: Sample
    last: Sample
    within_ms: int

    @property
    def length_s(self) -> float:
        return (self.last.time_ms - self.first.time_ms) / 1000


def energy(samples: Sequence[Sample], start_ms: int, stop_ms: int, ceiling_w: float | None) -> Energy:
    """The energy between two times: differences of counters; without any, `ceiling_w` times utilisation, integrated.

    A counter that runs backwards (it wrapped or was reset) and a pause of more than MAX_INTERVAL_MS count as not
    measured.
    """
    intervals = []
    for first, last in pairwise(samples):
        within_ms = min(last.time_ms, stop_ms) - max(first.time_ms, start_ms)
        if within_ms > 0 and last.time_ms - first.time_ms <= MAX_INTERVAL_MS:
            intervals.append(_Interval(first, last, within_ms))

    parts = {name: _measured(intervals, _counter(name)) for name in COUNTERS}
    parts = {name: part for name, part in parts.items() if part}
    source = "+".join(dict.fromkeys(COUNTERS[name] for name in parts))
    covers = tuple(name.removesuffix("_j") for name in parts)
    if not parts and ceiling_w is not None:
        estimate = _measured(intervals, lambda _, last: _scaled(last.utilisation, ceiling_w))
        parts, source = {ESTIMATED: estimate} if estimate else {}, ESTIMATED
    if not parts:
        return Energy(None, None, None, 0.0, None)
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
    cells = zip(sample[1:], _DECIMALS, strict=True)
    return Sample(sample.time_ms, *(None if cell is None else round(cell, places) for cell, places in cells))


def format_row(sample: Sample) -> str:
    """A row of power.csv, without newline."""
    cells = zip(sample[1:], _DECIMALS, strict=True)
    return ",".join([str(sample.time_ms), *("" if cell is None else f"{cell:.{places}f}" for cell, places in cells)])


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
    if not lines or lines[0] != HEADER.encode():
        raise SamplesError(1, f"is not the header {HEADER!r}")
    samples: list[Sample] = []
    for number, raw in enumerate(lines[1:], 2):
        match = _ROW.fullmatch(raw[:200].decode("ascii", "replace"))
        if not match:
            raise SamplesError(number, "is not a row of samples")
        sample = Sample(int(match[1]), *(float(cell) if cell else None for cell in match.groups()[1:]))
        if any(fraction is not None and fraction > 1 for fraction in sample[4:]):
            raise SamplesError(number, "a fraction is above 1")
        if samples and sample.time_ms <= samples[-1].time_ms:
            raise SamplesError(number, "is not later than the row before")
        samples.append(sample)
    return samples
