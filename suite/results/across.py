"""A machine in one figure: geometric means of ratios over the benchmarks that two sides share, and those missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from suite.plots.charts import Chart
from suite.plots.profiles import profiles
from suite.results.comparison import Comparison, Pair, comparable, ratio, ratio_interval, said
from suite.results.entry import Entry, all_values, kept, multiplied
from suite.rules.verdict import RunReview

FIGURES: Mapping[str, Callable[[RunReview], float | None]] = {
    "time to quality": lambda run: run.summary.seconds,
    "energy": lambda run: run.summary.joules,
    "cost": lambda run: run.summary.cost,
}


@dataclass(frozen=True)
class Across:
    """A figure over several benchmarks: the geometric mean of the ratios b / a, None if no benchmark has one.

    `over` are the benchmarks that it covers. `interval` is None if a side has too few runs of one of them.
    """

    name: str
    ratio: float | None
    interval: tuple[float, float] | None
    over: tuple[str, ...]

    @property
    def says(self) -> str:
        """What the interval says of b."""
        return said(self.ratio, self.interval, "tie")


@dataclass(frozen=True)
class Standing:
    """A system compared with the reference over the benchmarks that both have; `missing` has those that one lacks."""

    system: str
    figures: tuple[Across, ...]
    missing: tuple[str, ...]


def of_comparisons(made: Sequence[Comparison]) -> list[Across]:
    """The figures over several comparisons. Each comparison counts once, unless it has no ratio, or one of 0."""
    names = dict.fromkeys(figure.name for each in made for figure in each.figures if figure.name in FIGURES)
    figures = [(each.benchmark, figure) for each in made for figure in each.figures if figure.ratio]
    return [_across(name, {at: f.runs for at, f in figures if f.name == name and f.runs}) for name in names]


def standings(entries: Sequence[Entry], system_of: Callable[[Entry], str], reference: str) -> list[Standing]:
    """The standing of every system but the reference, by its result in each contest that `fastest` finds."""
    best = fastest(entries, system_of)
    theirs = best.get(reference, {})
    made = []
    for system in sorted(best.keys() - {reference}):
        both = sorted(theirs.keys() & best[system].keys())
        figures = [
            _across(
                name,
                {
                    each: pair
                    for each in both
                    if (pair := _pair(theirs[each], best[system][each], of, name)) is not None
                },
            )
            for name, of in FIGURES.items()
        ]
        missing = sorted(theirs.keys() ^ best[system].keys())
        made.append(Standing(system, tuple(figures), tuple(missing)))
    return made


def fastest(entries: Iterable[Entry], system_of: Callable[[Entry], str]) -> dict[str, dict[str, Entry]]:
    """The fastest result of each system in each contest, of those that passed the review and have enough runs."""
    best: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        if entry.seconds and entry.verdict == "pass" and not entry.short:
            here = best.setdefault(system_of(entry), {})
            other = here.get(entry.contest)
            if other is None or entry.seconds < (other.seconds or 0.0):
                here[entry.contest] = entry
    return best


def profile(entries: Iterable[Entry], system_of: Callable[[Entry], str]) -> Chart | None:
    """The performance profiles of the systems; None where not two of them have a benchmark in common."""
    best = fastest(entries, system_of)
    return profiles(
        {
            system: {name: entry.seconds for name, entry in each.items() if entry.seconds}
            for system, each in best.items()
        }
    )


def _pair(a: Entry, b: Entry, of: Callable[[RunReview], float | None], name: str) -> Pair | None:
    """The figures of both results' runs; None if a run that reached its target lacks one, or they do not compare.

    If one of them lost a run, these are the runs that their scores keep, so that nobody gains by a lost run; an
    interval of such runs holds the true ratio about 9 times in 10.
    """
    if not comparable(name, (a, b)) or (name == "cost" and a.currency is None):
        return None
    runs = [multiplied(entry) for entry in (a, b)]
    if any(entry.reached < len(entry.runs) for entry in (a, b)):
        runs = [kept(each, entry.dropped) for each, entry in zip(runs, (a, b), strict=True)]
    found = [all_values(each, of) for each in runs]
    return (found[0], found[1]) if all(found) and min(map(min, found)) > 0 else None


def _across(name: str, pairs: Mapping[str, Pair]) -> Across:
    each = list(pairs.values())
    return Across(name, ratio(each) if each else None, ratio_interval(*each), tuple(pairs))
