"""Each operator and its gradient against float64: error norms, units in the last place; the same in repeats, threads.

Each is judged when a step first calls it with these shapes, on copies of its inputs there.
"""

from __future__ import annotations

import time
from collections import defaultdict

from suite.probe import measuring
from suite.probe.judging import REPEATS, Errors, Judged
from suite.probe.record import Cell, Figure, Row
from suite.probe.subject import Subject
from suite.probe.workload import Workload

ERRORS = {"L2": "", "L-inf": "", "ulp": "median", "ulp 99 %": "", "gradient L2": "", "gradient ulp": "median"}
COLUMNS = {"type": "", **ERRORS, "repeats": "", "threads": ""}
MOST_NAMES = 8
MOST_OFF = 0.01  # of L2, before it is noted: rounding does so only to results whose terms cancel


class Measurement:
    """See `levels.Measurement`. What is judged does not change: repeats measure what judging costs."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        began = time.perf_counter()
        self.all = subject.instruments.judged(subject.build, subject.device)
        self.judging = time.perf_counter() - began
        self.workload: Workload = subject.build()
        measuring.block(self.workload, 1)
        self.plain: list[float] = []

    def repeat(self) -> None:
        """See `levels.Measurement`."""
        self.plain.append(measuring.block(self.workload, 1))

    def found(self) -> Cell:
        """See `levels.Measurement`."""
        judged = [each for each in self.all if each.forward]
        rows = [_row(each, each.forward) for each in self.all if each.forward]
        rows.sort(key=lambda row: -(row.number("L2") or 0))
        figures = {
            "operators": Figure(value=len({each.operator for each in self.all}), unit=""),
            "judged": Figure(value=len({each.operator for each in judged}), unit=""),
            "worst L2": Figure(value=rows[0].number("L2") if rows else None, unit=""),
            "differ in repeats": _differing([each.repeats for each in judged]),
            "differ by threads": _differing([each.threads for each in judged]),
            "overhead": measuring.mean([self.judging / plain for plain in self.plain], "x"),
        }
        told = notes(self.all)
        return Cell(conditions=self.subject.conditions, figures=figures, columns=COLUMNS, rows=rows, notes=told)


def _row(each: Judged, forward: Errors) -> Row:
    gradient = each.gradient
    values: dict[str, float | str | None] = {
        "type": each.kind,
        "L2": forward.l2,
        "L-inf": forward.linf,
        "ulp": forward.ulp,
        "ulp 99 %": forward.ulp_99,
        "gradient L2": gradient.l2 if gradient else None,
        "gradient ulp": gradient.ulp if gradient else None,
        "repeats": _same(each.repeats),
        "threads": _same(each.threads),
    }
    return Row(name=f"{each.operator} {each.shapes}".rstrip(), values=values)


def _differing(same: list[bool | None]) -> Figure:
    """How many were not the same; unknown if none could be tried, as threads on an accelerator."""
    tried = [each for each in same if each is not None]
    return Figure(value=tried.count(False) if tried else None, unit="")


def _same(value: bool | None) -> str | None:
    return None if value is None else "same" if value else "differ"


def notes(found: list[Judged]) -> list[str]:
    """What stands out, and which operators were not judged and why."""
    reasons: dict[str, dict[str, None]] = defaultdict(dict)
    judged = {each.operator for each in found if each.forward}
    for each in found:
        if each.why and each.operator not in judged:
            reasons[each.why][each.operator] = None
    told = [f"not judged, {why}: {_listed(list(names))}" for why, names in reasons.items()]
    lost = {each.operator: None for each in found for it in (each.forward, each.gradient) if it and it.lost}
    if lost:
        told.append(f"values not finite that are so in float64, or the other way round: {_listed(list(lost))}")
    off = {each.operator: None for each in found for it in (each.forward, each.gradient) if it and it.l2 > MOST_OFF}
    if off:
        why = "more than rounding explains unless large terms cancel"
        told.insert(0, f"off by more than {100 * MOST_OFF:g} % (L2), {why}: {_listed(list(off))}")
    threads = ", and on another number of threads" if any(each.threads is not None for each in found) else ""
    return [*told, f"the same or not: to the last bit, in {REPEATS} calls{threads}"]


def _listed(names: list[str]) -> str:
    rest = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + rest


measurement = Measurement
