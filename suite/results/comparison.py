"""Two results of one benchmark compared: ratios of means with confidence intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from suite.errors import UserError
from suite.measure.energy import ESTIMATED
from suite.record.summary import format_cost, format_energy, format_seconds
from suite.results.entry import Entry, all_values, currency, energy_source, multiplied, one_seed, remarks
from suite.rules.verdict import RunReview

CONFIDENCE = 0.95
NOTHING = "nothing"  # where a side lacks a value
LEAST_RUNS = 3  # of a side; fewer leave no spread to speak of
# Runs that differ in one of these, or in their recipe, are not pooled.
DIFFERING = (
    *("framework", "implementation", "precision", "system", "machine", "submitter", "division", "data", "ruleset"),
)


Pair = tuple[Sequence[float], Sequence[float]]


def said(ratio: float | None, interval: tuple[float, float] | None, alike: str) -> str:
    """What a ratio of B to A and its interval say; `alike` is the word for no difference."""
    if ratio is None:
        return "not known of both"
    if interval is None:
        return f"too few runs: {LEAST_RUNS} of each are needed"
    low, high = interval
    if low <= 1 <= high:
        return f"{alike}: no difference is shown"
    return "B is lower" if high < 1 else "B is higher"


def format_interval(interval: tuple[float, float]) -> str:
    """`0.98 to 1.0004`: three digits, or as many as tell an end from 1."""
    return " to ".join(
        next(text for digits in range(3, 18) if float(text := f"{end:.{digits}g}") != 1 or end == 1) for end in interval
    )


@dataclass(frozen=True)
class Side:
    """One of the two sides: its name, how many runs it has and reached the target, its seeds and clock, and remarks."""

    name: str
    runs: int
    reached: int
    seeds: str
    clock: str
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Figure:
    """A figure of both sides. `a` and `b` are means over the runs that reached the target, None if not known.

    `interval` is the confidence interval of `ratio`, b / a; None where there are too few runs for one. `runs` has the
    figure of each run of either side, where there is a ratio.
    """

    name: str
    a: float | None
    b: float | None
    shown_a: str
    shown_b: str
    ratio: float | None
    interval: tuple[float, float] | None
    runs: Pair | None = None

    @property
    def says(self) -> str:
        """What the interval says."""
        if self.ratio is None and self.a is not None and self.b is not None:
            return "does not compare"
        return said(self.ratio, self.interval, "noise")


@dataclass(frozen=True)
class Comparison:
    """A benchmark that both sides have. `differences` has each setting in which their runs differ: name, A's, B's."""

    benchmark: str
    a: Side
    b: Side
    figures: tuple[Figure, ...]
    differences: tuple[tuple[str, str, str], ...]


def compare(a: Sequence[Entry], b: Sequence[Entry]) -> list[Comparison]:
    """Compare the benchmarks that both sides have.

    If a side has several results of one benchmark that differ in `DIFFERING` or their recipe, each is compared with
    its like on the other side. Raises UserError if no benchmark that both have has such a pair.
    """
    sides = [_grouped(side, ("benchmark",)) for side in (a, b)]
    made, unlike = [], []
    for (benchmark,) in sorted(sides[0].keys() & sides[1].keys()):
        here = [side[benchmark,] for side in sides]
        names: list[str] = []
        recipe = dict.fromkeys(name for side in here for entry in side for name in entry.recipe)
        for name in (*DIFFERING, *recipe):
            pooled = [each for side in here for each in _grouped(side, names).values()]
            if any(len({_of(entry, name) for entry in each}) > 1 for each in pooled):
                names.append(name)
        pairs = [_grouped(side, names) for side in here]
        common = sorted(pairs[0].keys() & pairs[1].keys())
        made += [_compared(", ".join((benchmark, *like)), *(pair[like] for pair in pairs)) for like in common]
        if not common:
            unlike.append(f"{benchmark} by {' and '.join(names)}")
    if unlike and not made:
        raise UserError(
            f"a side has several results of {', '.join(unlike)}, none like the other side's: name one of each"
        )
    return made


def ratio(pairs: Sequence[Pair]) -> float:
    """The geometric mean of mean(b) / mean(a) over the pairs (a, b) of runs' figures, all above 0.

    Only this mean of ratios does not depend on which side is the reference (P. J. Fleming and J. J. Wallace 1986, How
    Not to Lie with Statistics, Comm. ACM 29).
    """
    return float(np.prod([np.mean(b) / np.mean(a) for a, b in pairs]) ** (1 / len(pairs)))


def ratio_interval(*pairs: Pair) -> tuple[float, float] | None:
    """The confidence interval of `ratio`; None if a side has fewer than `LEAST_RUNS` runs, or a mean not above 0.

    It is that of the logarithm, whose variance is the sum of those of the means, each by the delta method, and whose
    quantile is Student's t with the degrees of freedom of B. L. Welch 1947, Biometrika 34. A bootstrap of three to five
    runs would hold the true ratio only 80 to 88 times in 100. If the runs of each side are all equal, both ends are the
    ratio.
    """
    samples = [np.asarray(side, float) for pair in pairs for side in pair]
    if not samples or min(map(len, samples)) < LEAST_RUNS or min(each.mean() for each in samples) <= 0:
        return None
    parts = np.array([np.var(each, ddof=1) / len(each) / each.mean() ** 2 for each in samples])
    made = ratio(pairs)
    if not parts.any():
        return made, made

    from scipy.special import stdtrit  # where it is used: it takes a quarter of a second to import

    freedom = parts.sum() ** 2 / np.sum(parts**2 / [len(each) - 1 for each in samples])
    factor = float(np.exp(stdtrit(freedom, (1 + CONFIDENCE) / 2) * np.sqrt(parts.sum()) / len(pairs)))
    return made / factor, made * factor


def _grouped(entries: Sequence[Entry], names: Sequence[str]) -> dict[tuple[str, ...], list[Entry]]:
    made: dict[tuple[str, ...], list[Entry]] = {}
    for entry in entries:
        made.setdefault(tuple(_of(entry, name) for name in names), []).append(entry)
    return made


def _of(entry: Entry, name: str) -> str:
    """A field of the result as text, or a part of its recipe as its name and value."""
    if name in ("benchmark", *DIFFERING):
        return str(getattr(entry, name))
    return f"{name} {entry.recipe.get(name, NOTHING)}"


def _compared(benchmark: str, a: Sequence[Entry], b: Sequence[Entry]) -> Comparison:
    runs = [[run for entry in side for run in entry.runs] for side in (a, b)]
    scored = [[run for entry in side for run in multiplied(entry)] for side in (a, b)]
    currencies = [currency(side) for side in runs]
    priced = [side if single else [] for side, single in zip(runs, currencies, strict=True)]
    energies = [_energy(energy_source(side), _coverage(side)) for side in runs]
    figures = [
        _figure("time to quality", scored, lambda run: run.summary.seconds, [format_seconds] * 2),
        _figure("samples to quality", runs, lambda run: run.summary.samples, [lambda value: f"{value:,.0f}"] * 2),
        _figure("energy", runs, lambda run: run.summary.joules, energies),
        _figure(
            "cost",
            priced,
            lambda run: run.summary.cost,
            [partial(format_cost, currency=single) for single in currencies],
        ),
    ]
    held = [
        each if comparable(each.name, [*a, *b]) else replace(each, ratio=None, interval=None, runs=None)
        for each in figures
    ]
    return Comparison(benchmark, _side(a), _side(b), tuple(held), tuple(_differences(a, b)))


def comparable(figure: str, entries: Sequence[Entry]) -> bool:
    """Whether a figure of these results compares.

    A cost does not if currencies differ, or at a submitter's own price. An energy does not if it is of a part of a
    run, or of other parts of the machine than another's (measurement.8), or if only some of them were measured.
    """
    if figure == "cost":
        return len({entry.currency for entry in entries}) == 1 and not any(entry.own_price for entry in entries)
    if figure == "energy":
        boundaries = set[tuple[str, ...]]().union(*(entry.boundaries for entry in entries))
        return len(boundaries) == 1 and not any(entry.partial for entry in entries)
    return True


def _differences(a: Sequence[Entry], b: Sequence[Entry]) -> Iterator[tuple[str, str, str]]:
    """The settings that differ between the sides; none if a side does not tell them, such as one of MLPerf's."""
    if not all(entry.decided for entry in (*a, *b)):
        return
    for name in dict.fromkeys(name for entry in (*a, *b) for name in entry.decided):
        left, right = (sorted({entry.decided.get(name, NOTHING) for entry in side}) for side in (a, b))
        if left != right:
            yield name, " | ".join(left), " | ".join(right)


def _figure(
    name: str,
    runs: Sequence[Sequence[RunReview]],
    of: Callable[[RunReview], float | None],
    shown: Sequence[Callable[[float], str]],
) -> Figure:
    found = [all_values(side, of) for side in runs]
    a, b = (float(np.mean(each)) if each else None for each in found)
    texts = ["not known" if mean is None else text(mean) for mean, text in zip((a, b), shown, strict=True)]
    if a is None or b is None or a <= 0:
        return Figure(name, a, b, texts[0], texts[1], None, None)
    return Figure(name, a, b, texts[0], texts[1], b / a, ratio_interval((found[0], found[1])), (found[0], found[1]))


def _side(entries: Sequence[Entry]) -> Side:
    systems = sorted({f"{entry.system}, {entry.trained_by}" for entry in entries})
    runs = [run for entry in entries for run in entry.runs]
    seeds, clock = (", ".join(sorted({getattr(entry, name) for entry in entries})) for name in ("seeds", "clock"))
    counted = Counter(text for entry in entries for text in (*remarks(entry), *_factor(entry)))
    said = [text if count == 1 else f"{count} results, each {text}" for text, count in counted.items()]
    said += [text for text in one_seed(runs) if len(entries) > 1]
    reached = sum(run.converged for run in runs)
    return Side("; ".join(systems), len(runs), reached, seeds, clock, tuple(said))


def _factor(entry: Entry) -> list[str]:
    factor = entry.normalisation
    return [] if factor in (None, 1) else [f"TIMES MULTIPLIED BY {factor:.5g}, as its score is"]


def _coverage(runs: Sequence[RunReview]) -> float | None:
    known = [run.summary.coverage for run in runs if run.converged and run.summary.coverage is not None]
    return min(known, default=None)


def _energy(source: str, coverage: float | None) -> Callable[[float], str]:
    mark = "~ " if source == ESTIMATED else ""
    return lambda joules: mark + format_energy(joules, source, coverage)
