"""The check of how near a submitter's own implementation is to the reference, by the equivalence.json they made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from suite.config.bounds import bounds, unmeasured
from suite.config.contestant import Contestant
from suite.record.equivalence import FILE, Comparison
from suite.rules.finding import Finding, Severity
from suite.rules.implementation import contestant_of
from suite.rules.reading import PACKAGE, Evidence
from suite.rules.runs import path_of

ALWAYS = "fp32"  # the numeric format that shows most, always required
WIDEST = 1.0  # the widest fair bound: an array's whole way (docs/equivalence.md)
WIDEST_OF_DRAWS = 10.0  # the same for -log10 of the chance of draws of one distribution


@PACKAGE.rule("equivalence.1")
def held_to_the_reference(runs: Sequence[Evidence]) -> Iterator[Finding]:
    """An implementation in the closed division was compared with the reference, as it ran, and is within all bounds."""
    for run in runs:
        told = contestant_of(run)
        if told is None or run.in_open or run.benchmark is None:
            continue
        severity: Severity = "note" if run.package is None else "fail"
        for expected, found in _problems(run, told, run.benchmark.name):
            task, scale = run.benchmark.task, run.benchmark.scale
            options = f"task={task} scale={scale} implementation={told.name} precision={run.configured('precision')}"
            mend = f"python -m suite.check {options} out=FOLDER, and see docs/equivalence.md"
            yield Finding(path_of(run, FILE), None, expected, found, mend, severity)
        precision = str(run.configured("precision"))
        if bounds(precision) is None:
            yield cannot_tell(path_of(run, FILE), precision, "note" if run.package is None else "error")


def cannot_tell(file: str, precision: str, severity: Severity = "error") -> Finding:
    """The finding for a run in a numeric format in which nothing can be compared with the reference."""
    mend = "read the code, or measure the bounds: docs/equivalence.md"
    return Finding(file, None, f"trials in {precision}", unmeasured(precision), mend, severity)


def _problems(run: Evidence, told: Contestant, benchmark: str) -> Iterator[tuple[str, str]]:
    made, precision = run.equivalence, str(run.configured("precision"))
    if made is None:
        yield f"what holds {told.name} to the reference", "none"
        return
    if made.sha256 != told.sha256:
        yield f"of the files of sum {told.sha256}, which trained", f"of {made.sha256}"
    comparisons = [each for each in made.comparisons if each.benchmark == benchmark]
    if not comparisons:
        yield f"a comparison of {benchmark}", ", ".join(each.benchmark for each in made.comparisons) or "none"
    for each in comparisons:
        yield from beyond(each, {ALWAYS, precision})


def beyond(made: Comparison, precisions: set[str]) -> Iterator[tuple[str, str]]:
    """Yield (expected, found) for each format without trials, and each trial that is not within a fair bound."""
    tried = {trial.precision for trial in made.trials if trial.found is not None}
    for precision in sorted(each for each in precisions - tried if bounds(each)):
        yield f"trials in {precision}", "none"
    for trial in made.trials:
        widest = WIDEST_OF_DRAWS if trial.of_draws else WIDEST
        if trial.found is not None and not 0 <= (-1.0 if trial.bound is None else trial.bound) <= widest:
            yield f"{trial.trial}, in {trial.precision}: a bound of at most {widest:g}", f"{trial.bound}"
        elif not trial.holds:
            where = f" at {trial.where}" if trial.where else ""
            yield f"{trial.trial}, in {trial.precision}: at most {trial.bound:.3g}", f"{trial.found:.3g}{where}"
