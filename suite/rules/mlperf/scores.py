"""The score of a benchmark's runs, in minutes, as MLCommons' summarizer computes it; it writes nothing."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

from mlperf_logging.benchmark_meta import get_result_file_counts

from suite.record.evidence import UnsafeFile, read_safely
from suite.rules.mlperf.logs import LogReview
from suite.rules.mlperf.packages import SCALING, Group

_RUNS: dict[str, int] = get_result_file_counts("training")


@dataclass(frozen=True)
class Score:
    """What the runs of one benchmark on one system took.

    `minutes` is the olympic mean times `scaling`, None if too many runs do not comply; `runs` are the minutes of those
    that comply, ascending; `logs` is their number with the others; `needed` how many the round asks for.
    """

    path: str
    org: str | None
    system: str | None
    benchmark: str | None
    division: str | None
    logs: int
    needed: int | None
    compliant: int
    minutes: float | None
    scaling: float
    runs: list[float]


def droppable(benchmark: str | None) -> int:
    """How many runs may be dropped as the slowest, and are as the fastest."""
    return 4 if benchmark == "unet3d" else 1


def score(group: Group, logs: list[LogReview]) -> Score:
    """The score of `logs`, which are those of one benchmark in `group`.

    Olympic mean: without the fastest and the slowest runs, of which those that do not comply are some. A run whose log
    has no run_stop has no time and so does not comply.
    """
    benchmark = next((log.benchmark for log in logs if log.benchmark), None)
    runs = sorted(log.minutes for log in logs if log.official == "pass" and log.minutes is not None)
    most, lost, scaling = droppable(benchmark), len(logs) - len(runs), scaling_factor(group.folder)
    counted = runs[most : len(runs) - (most - lost)] if lost <= most else []
    return Score(
        path=group.label,
        org=group.org,
        system=group.system,
        benchmark=benchmark,
        division=next((log.division for log in logs if log.division), None),
        logs=len(logs),
        needed=_RUNS.get(benchmark or ""),
        compliant=len(runs),
        minutes=sum(counted) / len(counted) * scaling if counted else None,
        scaling=scaling,
        runs=runs,
    )


def scaling_factor(folder: Path) -> float:
    """The factor in the folder's scaling.json; 1 where there is none or it holds no number."""
    try:
        found = json.loads(read_safely(folder / SCALING, 1 << 16))["scaling_factor"]
    except (OSError, UnsafeFile, ValueError, KeyError, TypeError, RecursionError):
        return 1.0
    usable = isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)
    return float(found) if usable else 1.0
