"""`python -m tests.check.equivalence.survey [TABLE ...]`: measure docs/equivalence.md's tables and write them.

`faults` are implementations that compute something else, `freedoms` those that compute the same in another way,
`references` the two references of each task; without a name all three.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

from suite import config
from suite.errors import command, unknown
from suite.record.equivalence import Comparison, Trial
from tests.check.equivalence.altered import FAULTS, FREEDOMS
from tests.check.equivalence.comparing import compared, tensorflow

PAGE = Path(__file__).parents[3] / "docs" / "equivalence.md"
HEAD = "| implementation | benchmark | format | farthest in | found | bound | trials that fail |"
FORMATS = ("fp32", "bf16", "fp16")  # that a processor trains in


def faults() -> Iterator[str]:
    """Those that must be found, in the format that shows most."""
    for name, altered in FAULTS.items():
        yield row(name, "fp32", compared(altered, altered.task))


def freedoms() -> Iterator[str]:
    """Those that must pass."""
    for name, altered in FREEDOMS.items():
        for precision in FORMATS:
            yield row(name, precision, compared(altered, altered.task, precision))


def references() -> Iterator[str]:
    """TensorFlow's against PyTorch's, in the formats that the benchmark trains in."""
    for task in config.names("task"):
        own = config.benchmark(task, "mini").precision
        for precision in [own] if own else FORMATS:
            yield row("TensorFlow's reference", precision, compared(tensorflow(task), task, precision))


TABLES = {each.__name__: each for each in (faults, freedoms, references)}


def row(name: str, precision: str, report: Comparison) -> str:
    """The line of one comparison: the trial that is farthest over its bound, or nearest to it."""
    tried = [each for each in report.trials if each.found is not None]
    found = max(tried, key=excess)
    broken = sum(not each.holds for each in tried)
    trial = f"{found.trial}{f': `{found.where}`' if found.where else ''}"
    told = (name, report.benchmark, precision, trial, f"{found.found:.2g}", f"{found.bound:.2g}")
    return f"| {' | '.join(told)} | {broken} of {len(tried)} |"


def excess(trial: Trial) -> float:
    """What a trial found, in bounds."""
    assert trial.found is not None
    return trial.found / trial.bound if trial.bound else math.inf if trial.found else 0.0


def write(name: str, lines: list[str]) -> None:
    """Put a table in the place of the one below its mark."""
    table = "\n".join([f"<!-- {name} -->", HEAD, re.sub(r"[^|]+", "---", HEAD), *lines, ""])
    made, count = re.subn(rf"<!-- {name} -->\n(\|.*\n)*", lambda _: table, PAGE.read_text())
    assert count == 1, f"{PAGE} has no mark for {name}"
    PAGE.write_text(made)


def main(names: list[str]) -> int:
    """Measure and write the tables `names`."""
    for name in names:
        if name not in TABLES:
            raise unknown("table", name, TABLES)
    for name in names or TABLES:
        lines = []
        for line in TABLES[name]():
            print(line, flush=True)
            lines.append(line)
        write(name, lines)
    return 0


if __name__ == "__main__":
    command(main)
