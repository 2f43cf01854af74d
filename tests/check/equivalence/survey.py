"""`python -m tests.check.equivalence.survey [TASK ...]`: the tables of docs/equivalence.md.

Without a task those of the altered implementations; with tasks the two references of each against each other.
"""

from __future__ import annotations

import sys

from suite.record.equivalence import Comparison, Trial
from tests.check.equivalence.altered import FAULTS, FREEDOMS
from tests.check.equivalence.comparing import compared, tensorflow


def nearest(report: Comparison) -> Trial:
    """The trial that is farthest over its bound, or nearest to it."""
    return max((row for row in report.trials if row.bound), key=lambda row: row.found / row.bound)


def row(name: str, report: Comparison) -> str:
    found = nearest(report)
    broken = sum(not each.holds for each in report.trials)
    trial = f"{found.trial}{f', {found.where}' if found.where else ''}"
    return f"| {name} | {trial} | {found.found:.2g} | {found.bound:.2g} | {broken} of {len(report.trials)} |"


def main(tasks: list[str]) -> None:
    print("| implementation | farthest in | found | bound | trials that fail |\n|---|---|---|---|---|")
    for task in tasks:
        for precision in ("fp32", "bf16"):
            print(row(f"{task}, {precision}", compared(tensorflow(task), task, precision)), flush=True)
    for name, altered in {**FAULTS, **FREEDOMS}.items() if not tasks else ():
        for precision in ("fp32", "bf16") if name in FREEDOMS else ("fp32",):
            print(row(f"{name}, {precision}", compared(altered, altered.task, precision)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
