"""`python -m tests.check.equivalence.survey [TABLE ...]`: measure docs/equivalence.md's tables and write them.

`faults` are implementations that compute something else, `draws` those that draw by random numbers of their own,
`freedoms` those that compute the same in another way, `references` the two references of each task; without a name all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

from suite import config
from suite.errors import command, unknown
from suite.harness.implementation import frameworks
from suite.record.equivalence import Comparison, Trial
from tests.check.equivalence.altered import COMPILED, DRAWN_ALIKE, FAULTS, FREEDOMS, IMAGES, SURVEYED, WITH_OWN_DRAWS
from tests.check.equivalence.comparing import compared, equivalent, tensorflow

PAGE = Path(__file__).parents[3] / "docs" / "equivalence.md"
FORMATS = ("fp32", "bf16", "fp16")  # that a processor trains in


def faults() -> Iterator[tuple[str, ...]]:
    """Those that must be found: where they are in the format that shows most, and whether they are in each."""
    yield ("implementation", "benchmark", "farthest in fp32 in", "found", "bound", *(f"fails in {f}" for f in FORMATS))
    for name, altered in FAULTS.items():
        reports = [compared(altered, altered.task, precision) for precision in FORMATS]
        yield (name, reports[0].benchmark, *farthest(reports[0]), *map(failed, reports))


def draws() -> Iterator[tuple[str, ...]]:
    """How unlikely losses and lengths of steps are that were drawn from random numbers of one's own."""
    yield ("implementation with draws of its own", "loss", "bound", "length", "bound", "at", "")
    for name, altered in {"the same": DRAWN_ALIKE, **WITH_OWN_DRAWS, **SURVEYED}.items():
        report = compared(altered, IMAGES, own_draws=True)
        loss, length = (trial for trial in tried(report) if trial.trial.startswith(("the loss", "the length")))
        cells = [f"{value:.2g}" for trial in (loss, length) for value in (trial.found, trial.bound)]
        yield (name, *cells, f"`{length.where}`", "passes" if equivalent(report) else "found")


def freedoms() -> Iterator[tuple[str, ...]]:
    """Those that must pass: how near to a bound."""
    yield ("implementation", "benchmark", *FORMATS)
    for name, altered in {**FREEDOMS, "torch.compile": COMPILED}.items():
        reports = [compared(altered, altered.task, precision) for precision in FORMATS]
        nearest = (farthest(report) for report in reports)
        yield (name, reports[0].benchmark, *(f"{found} of {bound}" for _, found, bound in nearest))


def references() -> Iterator[tuple[str, ...]]:
    """TensorFlow's against PyTorch's, in the formats that the benchmark trains in."""
    yield ("benchmark", "format", "nearest to its bound in", "found", "bound", "fails")
    for task in [each for each in config.names("task") if "tensorflow" in frameworks(each)]:
        own = config.benchmark(task, "mini").precision
        for precision in [own] if own else FORMATS:
            report = compared(tensorflow(task), task, precision)
            yield (report.benchmark, precision, *farthest(report), failed(report))


TABLES = {each.__name__: each for each in (faults, draws, freedoms, references)}


def farthest(report: Comparison) -> tuple[str, str, str]:
    """The trial that is farthest over its bound, or nearest to it; what it found; the bound."""
    trial = max(tried(report), key=excess)
    return f"{trial.trial}{f': `{trial.where}`' if trial.where else ''}", f"{trial.found:.2g}", f"{trial.bound:.2g}"


def failed(report: Comparison) -> str:
    """How many of the trials fail."""
    return f"{sum(not each.holds for each in tried(report))} of {len(tried(report))}"


def tried(report: Comparison) -> list[Trial]:
    """The trials that could be made."""
    return [each for each in report.trials if each.found is not None]


def excess(trial: Trial) -> float:
    """What a trial found, in bounds."""
    assert trial.found is not None
    return trial.found / trial.bound if trial.bound else math.inf if trial.found else 0.0


def write(name: str, lines: list[str]) -> None:
    """Put a table, of which the first line is the head, in the place of the one below its mark."""
    head, *rows = lines
    table = "\n".join([f"<!-- {name} -->", head, re.sub(r"[^|]+", "---", head), *rows, ""])
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
        for cells in TABLES[name]():
            lines.append(f"| {' | '.join(cells)} |")
            print(lines[-1], flush=True)
        write(name, lines)
    return 0


if __name__ == "__main__":
    command(main)
