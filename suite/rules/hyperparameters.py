"""Checks of the chapter "Hyperparameters": fixed, free within a range, or bound to another one by a formula.

What is free is declared with the benchmark (`suite.config.Benchmark.free`). The open division leaves all free.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from mlperf_logging.mllog import constants as keys

from suite.config.models import Benchmark, Formula, Range
from suite.errors import shown
from suite.record.evidence import CONFIG, LOG
from suite.record.parsing import differences, number, same, whole
from suite.rules.benchmark import NOT_YOURS
from suite.rules.finding import Finding
from suite.rules.reading import RUN, Evidence

_ABSURD = 1e18  # beyond any hyperparameter, as is its reciprocal; a formula might overflow on either


def batch_size(run: Evidence, benchmark: Benchmark) -> int:
    """The samples of one step: as logged where that is a number, else the benchmark's; 1 where there is none.

    At most the samples between two evaluations, so that no batch size excuses a missing evaluation.
    """
    reference = int(benchmark.hyperparameters.get(keys.GLOBAL_BATCH_SIZE, 1))
    return min(whole(run.value(keys.GLOBAL_BATCH_SIZE)) or reference, benchmark.evaluation.every)


@RUN.rule("hyperparameters.1")
def fixed(run: Evidence) -> Iterator[Finding]:
    """Every fixed hyperparameter has the reference's value; log and configuration agree on each of the others.

    The open division has no fixed ones, and may have hyperparameters that the reference lacks.
    """
    benchmark = run.benchmark
    if benchmark is None:
        return
    in_open = run.in_open
    values = run.configured("benchmark", "hyperparameters") if in_open else benchmark.hyperparameters
    expected = {}
    for name, reference in values.items() if isinstance(values, dict) else ():
        lines, free = run.lines_of.get(name, []), in_open or name in benchmark.free
        if not lines and run.readable:
            yield Finding(LOG, None, f"a line {name}", "none", NOT_YOURS)
        wanted = lines[0].value if free and lines else reference
        told = f"{name} {shown(wanted)}"  # made once: it may be long, and the lines many
        for line in lines:
            if not same(wanted, line.value):
                yield Finding(LOG, line.number, told, line.value, NOT_YOURS)
        expected[name] = wanted
    if not run.parsed(CONFIG):
        return
    for path, right, wrong in differences(expected, run.configured("benchmark", "hyperparameters")):
        where = run.config_line("benchmark", "hyperparameters", *path)
        yield Finding(CONFIG, where, f"{'.'.join(map(str, path)) or 'hyperparameters'}: {right}", wrong, NOT_YOURS)


@RUN.rule("hyperparameters.2")
def within_range(run: Evidence) -> Iterator[Finding]:
    """A free hyperparameter is a number within its range, and whole if the reference's is."""
    return _misfits(run, Range, "choose {} within its range")


@RUN.rule("hyperparameters.3")
def by_formula(run: Evidence) -> Iterator[Finding]:
    """A hyperparameter that is bound to another one is what its formula gives, within the formula's tolerance."""
    return _misfits(run, Formula, "set {} by its formula")


def misfit(benchmark: Benchmark, name: str, value: Any, other: Any) -> str | None:
    """What the free hyperparameter `name` has to be where `value` is not that; None where it is.

    `other` is the value of the hyperparameter that its formula follows; without a formula it is ignored.
    """
    reference, free, found = benchmark.hyperparameters[name], benchmark.free[name], number(value)
    if isinstance(free, Range):
        fits = found is not None and free.low <= found <= free.high and free.divides(found)
        kind = "a whole number" if isinstance(reference, int) else "a number"
        expected = f"{name}: {kind} from {free.low:g} to {free.high:g}"
        expected += f", a multiple of {free.multiple_of}" if free.multiple_of else ""
    else:
        usual, given = benchmark.hyperparameters[free.proportional_to], number(other)
        if given is None or not 1 / _ABSURD < given < _ABSURD:
            return None  # `other` is what is wrong, by its own rule
        right = free.of(reference, given, usual)
        fits = found is not None and math.isclose(found, right, rel_tol=free.tolerance)
        formula = f"{reference:g} x ({free.proportional_to} / {usual:g})"
        formula += f" ^ {free.power:g}" if free.power != 1 else ""
        least, most = right * (1 - free.tolerance), right / (1 - free.tolerance)
        expected = f"{name} from {least:g} to {most:g}, about {right:g}: {formula}"
    return None if fits and (isinstance(found, int) or not isinstance(reference, int)) else expected


def _misfits(run: Evidence, kind: type[Range | Formula], mend: str) -> Iterator[Finding]:
    """Findings for the hyperparameters that are free by this `kind` and do not fit it."""
    benchmark = None if run.in_open else run.benchmark
    for name, free in benchmark.free.items() if benchmark else ():
        if (line := run.line(name)) and isinstance(free, kind):
            other = run.value(free.proportional_to) if isinstance(free, Formula) else None
            if expected := misfit(benchmark, name, line.value, other):  # type: ignore[arg-type]
                yield Finding(LOG, line.number, expected, line.value, mend.format(name))
