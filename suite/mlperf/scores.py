"""The score of a benchmark's runs, in minutes, as MLCommons' summarizer computes it. Nothing is written."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from dataclasses import dataclass

from mlperf_logging.benchmark_meta import get_result_file_counts

from suite.errors import shown
from suite.mlperf.logs import LogReview
from suite.mlperf.packages import SCALING, Group
from suite.rules.finding import Finding
from suite.store.disk import UnsafeFile, read_safely

_RUNS: dict[str, int] = get_result_file_counts("training")


@dataclass(frozen=True)
class Score:
    """The score of the runs of one benchmark on one system.

    `minutes` is the olympic mean times `scaling`, None if too many runs do not comply, or if `scaling` is None because
    the factor cannot be used. `runs` are the minutes of the runs that comply, ascending; `logs` is the number of all
    runs, `needed` how many the round asks for. `path`, `org` and `system` are safe to print.
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
    scaling: float | None
    runs: list[float]


def counted_for(named: list[str | None]) -> list[str | None]:
    """The benchmark that each log of a folder counts for, by those they name: for none, the most frequent one."""
    counts = Counter(benchmark for benchmark in named if benchmark)
    usual = max(counts, key=counts.__getitem__, default=None)
    return [benchmark or usual for benchmark in named]


def droppable(benchmark: str | None) -> int:
    """How many runs the mean leaves out at each end; at the slow end, those that do not comply come first."""
    return 4 if benchmark == "unet3d" else 1


def score(group: Group, logs: list[LogReview], scaling: float | None) -> Score:
    """The score of `logs`, those of one benchmark in `group`, with the factor `scaling`.

    The olympic mean leaves out the fastest and the slowest runs; those that do not comply count as the slowest. A run
    whose log has no run_stop has no time and so does not comply.
    """
    benchmark = next((log.benchmark for log in logs if log.benchmark), None)
    runs = sorted(log.minutes for log in logs if log.official == "pass" and log.minutes is not None)
    most, lost = droppable(benchmark), len(logs) - len(runs)
    counted = runs[most : len(runs) - (most - lost)] if lost <= most else []
    minutes = sum(counted) / len(counted) * scaling if counted and scaling is not None else math.nan
    return Score(
        path=group.label,
        org=None if group.org is None else shown(group.org),
        system=None if group.system is None else shown(group.system),
        benchmark=benchmark,
        division=next((log.division for log in logs if log.division), None),
        logs=len(logs),
        needed=_RUNS.get(benchmark or ""),
        compliant=len(runs),
        minutes=minutes if math.isfinite(minutes) else None,
        scaling=scaling,
        runs=runs,
    )


def scaling_factor(group: Group, ruleset: str) -> tuple[float | None, list[Finding]]:
    """The factor in the group's scaling.json, 1 if there is no such file, None if it cannot be used; and the findings.

    A factor other than 1 is noted, because the review committee sets it; one that cannot be used is a failure.
    """
    try:
        found = json.loads(read_safely(group.folder / SCALING, 1 << 16))["scaling_factor"]
    except FileNotFoundError:
        return 1.0, []
    except (OSError, UnsafeFile, ValueError, KeyError, TypeError, RecursionError) as error:
        found = f"none that can be read ({type(error).__name__})"
    rule, file = f"{ruleset}/scaling", f"{group.label}/{SCALING}" if group.label else SCALING
    if not isinstance(found, int | float) or isinstance(found, bool) or not 0 < found <= sys.float_info.max:
        said = shown(found if isinstance(found, int | float | str) else f"a {type(found).__name__}")
        expected, mend = "a finite scaling_factor above 0", "submit the file as the review committee made it"
        return None, [Finding(file, None, expected, said, mend, rule=rule)]
    mend = "nothing, if the review committee set it"
    noted = Finding(file, None, "scaling_factor 1", shown(found), mend, "note", rule=rule)
    return float(found), [noted] if found != 1 else []
