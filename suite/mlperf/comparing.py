"""Our own checks of a package: no copies, the submitter's name, one division, and no excuse but a missed target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

from suite.errors import shown
from suite.mlperf import systems
from suite.mlperf.logs import LogReview
from suite.mlperf.packages import Group
from suite.mlperf.scores import droppable
from suite.mlperf.strict import Traits
from suite.rules.finding import Finding

_ALIKE = 0.9  # two runs with this share of equal events, or more, are copies
_MOST = 500  # runs that are compared
_NOBODY = ("placeholder", "referenceimplementation")  # what published code logs until somebody enters a name
_SHORTEST = 3  # the fewest letters of a name that may match as a part of another
_FEW = 4  # events or evaluations below which likeness may be chance


def findings(group: Group, runs: list[LogReview]) -> list[Finding]:
    """The findings of our checks on `runs`, the logs of one benchmark in `group`."""
    return [*_organisation(group, runs), *_division(group, runs), *_excused(runs)]


def copies(runs: Sequence[LogReview]) -> Iterator[Finding]:
    """Find copies among the logs that a submitter has of a benchmark, on whatever systems.

    They have another's event times, counted from run_start, or all its evaluations' values.
    """
    copies: set[str] = set()
    for first, second in combinations(runs[:_MOST], 2):
        if second.path not in copies and (alike := _alike(first.traits, second.traits)):
            copies.add(second.path)
            mend = "submit runs that were each made on their own"
            expected = f"a run other than {first.path}"
            yield Finding(second.path, None, expected, alike, mend, rule="mlperf-strict/copy")


def _alike(a: Traits, b: Traits) -> str | None:
    most = max(len(a.events), len(b.events))
    same = len(a.events & b.events)
    if most >= _FEW and same >= _ALIKE * most:
        return f"{same} of {most} events at the same time of the run"
    if len(a.qualities) >= _FEW and a.qualities == b.qualities and len(set(a.qualities)) >= _FEW:
        return f"the same {len(a.qualities)} qualities"
    return None


def _organisation(group: Group, runs: list[LogReview]) -> Iterator[Finding]:
    """Find logs of another organisation than the submitter.

    The system's description and the submitter's folder name the submitter; if neither does, most of the logs do. A name
    may be a part of the other: partners submit together, and firms have short names.
    """
    submitter = systems.description(group).get("submitter")
    names = [name for name in (submitter, group.org if group.org_is_submitted else None) if isinstance(name, str)]
    if not names:
        usual, times = max(Counter(run.org for run in runs).items(), key=lambda item: item[1])
        names = [usual] if usual is not None and 2 * times > len(runs) else []
    for run in runs:
        if run.org is None:
            continue
        org = _plain(run.org)
        nobody = any(word in org for word in _NOBODY)
        if nobody or (names and not any(_one(org, _plain(name)) for name in names)):
            real = [shown(name) for name in dict.fromkeys(names) if not any(word in _plain(name) for word in _NOBODY)]
            expected = f"submission_org {' or '.join(real) or 'of the submitter'}"
            mend = "log the organisation that submits"
            yield Finding(run.path, run.traits.org_line, expected, run.org, mend, rule="mlperf-strict/organisation")


def _division(group: Group, runs: list[LogReview]) -> Iterator[Finding]:
    """Find logs of another division than the system's description says or, without one, than most of the logs do."""
    described = systems.description(group).get("division")
    named = Counter(_plain(run.division) for run in runs if run.division)
    division = _plain(described) if isinstance(described, str) else max(named, key=named.__getitem__, default="")
    for run in runs:
        if run.division and _plain(run.division) != division:
            line, expected = run.traits.division_line, f"submission_division {division}"
            mend = "submit the runs of another division as another result"
            yield Finding(run.path, line, expected, run.division, mend, rule="mlperf-strict/division")


def _one(a: str, b: str) -> bool:
    return a == b or (min(len(a), len(b)) >= _SHORTEST and (a in b or b in a))


def _plain(name: str) -> str:
    return "".join(c for c in name.casefold() if c.isalnum())


def _excused(runs: list[LogReview]) -> Iterator[Finding]:
    failed = [run for run in runs if run.official != "pass"]
    if len(runs) == 1 or len(failed) > droppable(next((run.benchmark for run in runs if run.benchmark), None)):
        return
    for run in failed:
        if not run.traits.only_missed:
            reasons = [finding for finding in run.findings if finding.severity != "note"]
            where = run.findings[0].line if run.findings else None
            expected = "a log that complies, or one that only missed the target"
            found = f"{len(reasons)} findings, the first against {reasons[0].rule}"
            mend = "submit a run that complies in its place"
            yield Finding(run.path, where, expected, found, mend, rule="mlperf-strict/excused")
