"""The check that detects copies of a run, whatever was changed in a copy's names, seeds and time stamps.

Four series are compared where both logs have them: the losses and throughputs during training, the qualities of the
evaluations, and the times between the lines of the run. Two runs that were really made differ in all of them: the
seed changes losses and qualities, the machine changes throughputs and times. For submittable benchmarks the
predictions are compared as well: where they are many and not all right, no two seeds give the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from mlperf_logging.mllog import constants as keys

from suite.config.logkeys import TRACKED
from suite.record.evidence import LOG, PREDICTIONS
from suite.record.mllog import samples_of
from suite.record.parsing import number
from suite.rules.finding import Finding
from suite.rules.reading import PACKAGE, Evidence
from suite.rules.runs import of_one_owner, path_of
from suite.rules.timeline import IN_RUN

SPARE = 5  # one in so many values of the shorter series may disagree
SHORT_MS = 20  # shorter times between two lines are ignored: many agree by chance
SLACK_MS = 3  # by how much a time may have been changed in a copy
UNEVEN_MS = 10 * SLACK_MS  # times of one kind of line that deviate less are alike in all runs
FEW_BYTES = 1000  # of predictions, which may agree by chance

Series = Mapping[Any, float]  # by samples, or by log key and samples


@dataclass(frozen=True)
class Kind:
    """A kind of series. Values agree if they differ by at most `tolerance` of the larger one, or by `slack`.

    Two series are copies only if at least `least` different values agree. A `seeded` kind depends on the seed: two runs
    that declare the same seed, as in two frameworks, may share it; between two submitters this is noted.
    """

    name: str
    of: Callable[[Evidence], Series]
    tolerance: float
    least: int
    seeded: bool
    slack: float = 0.0


def _tracked(name: str) -> Callable[[Evidence], Series]:
    def series(run: Evidence) -> Series:
        lines = [line for line in run.lines_of.get(TRACKED, []) if isinstance(line.value, dict)]
        return {samples_of(line): value for line in lines if (value := number(line.value.get(name))) is not None}

    return series


def _qualities(run: Evidence) -> Series:
    return {samples_of(e): value for e in run.timeline.evaluations if (value := number(e.value)) is not None}


def _times(run: Evidence) -> Series:
    """Milliseconds since the line before, for each line between run_start and run_stop that marks a step.

    Kinds of lines whose times are even, or change with a schedule, are left out: on a quiet machine they are alike in
    all runs.
    """
    marks = [line for key in (keys.RUN_START, *IN_RUN, TRACKED, keys.RUN_STOP) for line in run.lines_of.get(key, [])]
    marks.sort(key=lambda line: line.number)
    between = {(line.key, samples_of(line)): line.time_ms - before.time_ms for before, line in pairwise(marks)}
    long = {mark: ms for mark, ms in between.items() if ms >= SHORT_MS}
    of_kind = defaultdict(list)
    for (key, _), ms in long.items():
        of_kind[key].append(ms)
    return {mark: ms for mark, ms in long.items() if _deviation(of_kind[mark[0]]) >= UNEVEN_MS}


def _deviation(values: Sequence[float]) -> float:
    """The median absolute deviation from the median, or from the value before where that is less."""
    middle = median(values)
    changes = [abs(value - before) for before, value in pairwise(values)]
    return min(median(abs(value - middle) for value in values), median(changes or [0.0]))


KINDS = (
    Kind("losses", _tracked("loss"), 1e-3, 3, seeded=True),
    Kind("throughputs", _tracked("throughput"), 1e-6, 3, seeded=False),
    Kind("qualities", _qualities, 0.0, 5, seeded=True),
    Kind("times between its lines", _times, 0.0, 5, seeded=False, slack=SLACK_MS),
)


@PACKAGE.rule("runs.8")
def no_copies(runs: Sequence[Evidence]) -> Iterator[Finding]:
    """No two logs of a submission are near-copies of each other."""
    series = [[kind.of(run) for kind in KINDS] for run in runs]
    seeds, orgs = ([run.value(key) for run in runs] for key in (keys.SEED, keys.SUBMISSION_ORG))
    for late in range(len(runs)):
        for early in range(late):
            one_seed = seeds[early] == seeds[late]
            alike = [
                kind
                for kind, a, b in zip(KINDS, series[early], series[late], strict=True)
                if not (kind.seeded and one_seed and orgs[early] == orgs[late]) and _copies(kind, a, b)
            ]
            names = [kind.name for kind in alike]
            if not one_seed and _same_predictions(runs[early], runs[late]):
                names.append("predictions")
            if names:
                found = f"the {', '.join(names)} of {path_of(runs[early], LOG)}"
                if one_seed and all(kind.seeded for kind in alike):
                    mend = "audit both: one seed gives one training, and nothing here tells whose it was"
                    yield Finding(path_of(runs[late], LOG), None, "a log of a run of its own", found, mend, "note")
                    continue
                if orgs[early] != orgs[late] or not of_one_owner(runs[early], runs[late]):
                    mend = "audit both: one of them is a copy, and nothing here tells which"
                    yield Finding(path_of(runs[late], LOG), None, "a log of a run of its own", found, mend, "error")
                    found = f"the {', '.join(names)} of {path_of(runs[late], LOG)}"
                    yield Finding(path_of(runs[early], LOG), None, "a log of a run of its own", found, mend, "error")
                    break
                mend = "submit runs that were each made, with a seed of its own"
                yield Finding(path_of(runs[late], LOG), None, "a log of a run of its own", found, mend)
                break


def _same_predictions(a: Evidence, b: Evidence) -> bool:
    """Whether two runs' predictions are the same beyond chance. On scales for trying, both may be all right."""
    digest = a.digests.get(PREDICTIONS)
    submittable = a.benchmark is not None and a.benchmark.submittable
    return submittable and digest is not None and digest.size > FEW_BYTES and digest == b.digests.get(PREDICTIONS)


def _copies(kind: Kind, a: Series, b: Series) -> bool:
    """Whether most values of the shorter series agree with the other's; gives up at one disagreement too many."""
    shorter, longer = sorted((a, b), key=len)
    spare = len(shorter) // SPARE
    agreed = set()
    for place, value in shorter.items():
        other = longer.get(place)
        if other is not None and abs(value - other) <= max(kind.tolerance * max(abs(value), abs(other)), kind.slack):
            agreed.add(value)
        elif (spare := spare - 1) < 0:
            return False
    return len(agreed) >= kind.least
