"""Energy from the samples of a run's power.csv: from counters where there are any, else a labelled estimate."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from suite.measure.samples import COUNTERS, MAX_INTERVAL_MS, Sample

NVML, RAPL = "nvml", "rapl"
ESTIMATED = "estimated"  # the source of an energy that is no measurement
MIN_COVERAGE = 0.95  # the share of a run's time that an energy must cover to stand for all of it


@dataclass(frozen=True)
class Energy:
    """The energy a run drew. `joules` is for the fraction `coverage` (0 to 1) of its time; the rest is not guessed.

    `source` is the accelerators' library, rapl, both (nvml+rapl), estimated, or None if `joules` is None. `covers`
    names the counters that were read on every node. `interval_s` is the median time between the samples used, on the
    node where it is longest; `mean_w` is the mean power while it was measured.
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
    """Compute the energy of all nodes between two times, from differences of counters.

    A node without counters is estimated: utilisation times `ceiling_w`, the power ceiling of a node, integrated. A
    pause of more than MAX_INTERVAL_MS counts as not measured, as does a counter that runs backwards (it wrapped or was
    reset). `library` is what the accelerators were measured with, see `Machine`.
    """
    of: dict[int, list[Sample]] = {}
    for sample in samples:
        of.setdefault(sample.node, []).append(sample)
    seen = [own for node, own in sorted(of.items()) if node < nodes]
    each = [_of_node(own, start_ms, stop_ms, ceiling_w, library or NVML) for own in seen]
    if len(each) < nodes:
        each.append(UNKNOWN)  # one for all nodes without samples: an untrusted file may claim many
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
    """The energy of one node from its samples."""
    intervals = []
    for first, last in pairwise(samples):
        within_ms = min(last.time_ms, stop_ms) - max(first.time_ms, start_ms)
        if within_ms > 0 and last.time_ms - first.time_ms <= MAX_INTERVAL_MS:
            intervals.append(_Interval(first, last, within_ms))

    parts = {name: _measured(intervals, counter(name)) for name in COUNTERS}
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
    """(watts, interval) of each interval whose power is known."""
    return [(power, i) for i in intervals if (power := watts(i.first, i.last)) is not None]


def counter(name: str) -> Callable[[Sample, Sample], float | None]:
    """The mean power in watts between two samples, by this counter; None where it ran backwards or was not read."""

    def watts(first: Sample, last: Sample) -> float | None:
        before, after = getattr(first, name), getattr(last, name)
        if before is None or after is None or after < before:
            return None
        return float(after - before) * 1000 / (last.time_ms - first.time_ms)

    return watts


def _scaled(utilisation: float | None, ceiling_w: float) -> float | None:
    return None if utilisation is None else utilisation * ceiling_w
