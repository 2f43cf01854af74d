"""A result as the results page shows it, whichever ruleset judged it, and the figures that follow from its runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mlperf_logging.mllog import constants as keys

from suite.measure.energy import ESTIMATED
from suite.mlperf.scores import droppable
from suite.record.names import REFERENCE
from suite.record.scoring import DROPS_FROM, mean_of
from suite.record.summary import format_restarts
from suite.review.model import SUITE
from suite.rules.finding import Verdict
from suite.rules.verdict import RunReview

UNKNOWN = "not known"
GRADES: tuple[Verdict, ...] = ("pass", "error", "fail")  # from the best to the worst
_BENCHMARK = "config.benchmark."
_HYPERPARAMETERS = "hyperparameters."
_RECIPE = tuple(_BENCHMARK + each for each in (_HYPERPARAMETERS, "evaluation.", "budget_samples"))


@dataclass(frozen=True)
class Entry:
    """One result: the runs of one benchmark on one system by one implementation, of one submitter.

    `implementation` is `reference`, or the name of the submitter's own. `source` is the folder that was read, `path`
    the result's folder in it. `seconds` is the score, the olympic mean of the times to quality multiplied by
    `normalisation`; it is None if the ruleset gives no score, or no usable factor. `unheld` tells that samples to
    quality were held to nothing, because the reference has no points.
    `own_price` tells that the price is not the suite's, so that the cost does not compare with others.
    `seeds` is `drawn by TOKEN` if a token gave them, else `chosen`: picked seeds cannot be told from random ones.
    `part` is the fraction of the training data that a pilot had, None if it was all.
    `clock` is `witnessed` if authorities that the reader trusts saw begin and end of each run, else `its own`.
    `machine` says what the system is made of, `accelerators` how many it has. `peak_flops` is what all of them can do
    in a second, in the numeric format of the training (`precision`); `flops` is what the model takes for a training
    sample. `findings` counts what breaks a rule or could not be checked. In `runs`, each path is relative to `source`,
    and impossible figures are None; a run of MLPerf's has `converged` if it complies, since only then is it known to
    have reached its target. `decided` has each value that decided its first run, by its place in `config.yaml` and
    `system.json`.
    """

    source: str
    path: str
    ruleset: str
    benchmark: str
    metric: str
    target: float | None
    submitter: str
    division: str
    status: str
    system: str
    machine: str
    accelerators: int | None
    framework: str
    precision: str
    implementation: str
    verdict: Verdict
    findings: int
    seconds: float | None
    normalisation: float | None
    unheld: bool
    runs_needed: int | None
    own_price: bool
    seeds: str
    clock: str
    part: float | None
    flops: float | None
    peak_flops: float | None
    runs: tuple[RunReview, ...]
    decided: Mapping[str, str] = field(default_factory=dict)

    @property
    def trained_by(self) -> str:
        """The framework, and the name of the implementation where it is not the reference."""
        known = self.implementation in (REFERENCE, UNKNOWN)
        return self.framework if known else f"{self.framework}, {self.implementation}"

    @property
    def recipe(self) -> dict[str, str]:
        """The hyperparameters, cadence and budget of its first run; none for a result of MLPerf's."""
        return {
            name.removeprefix(_BENCHMARK).removeprefix(_HYPERPARAMETERS): value
            for name, value in self.decided.items()
            if name.startswith(_RECIPE)
        }

    @property
    def contest(self) -> str:
        """What it is ranked in: results of another division, round or part of the data are not ranked with it."""
        made = [self.benchmark]
        made += [self.data] if self.part is not None else []
        made += [f"division {self.division}"] if self.division != keys.CLOSED else []
        made += [f"rules {self.ruleset}"] if self.ruleset != SUITE else []
        return ", ".join(made)

    @property
    def data(self) -> str:
        """How much of the training data it had."""
        return "all of the data" if self.part is None else f"{self.part:g} of the data"

    @property
    def short(self) -> bool:
        """Whether it has fewer runs than a result needs."""
        return self.runs_needed is not None and len(self.runs) < self.runs_needed

    @property
    def reached(self) -> int:
        """How many runs reached the target."""
        return sum(run.converged for run in self.runs)

    @property
    def dropped(self) -> int:
        """How many of the fastest runs its score drops, and how many of the slowest."""
        return 1 if self.ruleset == SUITE else droppable(self.benchmark)

    @property
    def lost(self) -> str:
        """The remark for a run that did not reach its target."""
        return "NOT REACHED" if self.ruleset == SUITE else "NOT COMPLIANT"

    @property
    def times(self) -> list[float]:
        """The times to quality in seconds as the score counts them, ascending; see `multiplied`."""
        return sorted(values(multiplied(self), lambda run: run.summary.seconds))

    @property
    def cost(self) -> float | None:
        """The mean cost of the runs that the olympic mean of the time keeps, in `currency`."""
        return mean_of_kept(self.runs, lambda run: run.summary.cost) if self.currency else None

    @property
    def currency(self) -> str | None:
        """The currency of all runs' costs; None if there is no single one."""
        return currency(self.runs)

    @property
    def joules(self) -> float | None:
        """The mean energy of the runs that the olympic mean of the time keeps."""
        return mean_of_kept(self.runs, lambda run: run.summary.joules)

    @property
    def energy_source(self) -> str | None:
        """What the energies were measured by; `estimated` if any of them was not measured."""
        return energy_source(self.runs) or None

    @property
    def coverage(self) -> float | None:
        """The smallest fraction of a run's time that its energy covers."""
        known = [run.summary.coverage for run in self.runs if run.summary.joules is not None]
        return min((each for each in known if each is not None), default=None)

    @property
    def partial(self) -> int:
        """How many runs have an energy of only a part of their time or hardware."""
        return sum(run.summary.partial for run in self.runs)

    @property
    def estimated(self) -> bool:
        """Whether the energy is an estimate."""
        return self.joules is not None and self.energy_source == ESTIMATED

    @property
    def boundaries(self) -> set[tuple[str, ...]]:
        """What the energies of its runs cover: the counters that were read, or the source if estimated or not known."""
        known = [run for run in self.runs if run.summary.joules is not None]
        sources = [energy_source([run]) for run in known]
        return {
            (source,) if source == ESTIMATED or not run.summary.covers else run.summary.covers
            for run, source in zip(known, sources, strict=True)
        }

    @property
    def utilisation(self) -> float | None:
        """Model FLOPs utilisation over the timed run (Chowdhery et al. 2022, PaLM, appendix B), 1 for the whole peak.

        What training takes, without evaluations, divided by what the accelerators could do in the time to quality; the
        mean of the runs that the olympic mean keeps. None if one of these figures is not known.
        """
        flops, peak = self.flops, self.peak_flops
        if not flops or not peak:
            return None

        def of(run: RunReview) -> float | None:
            samples, seconds = run.summary.samples, run.summary.seconds
            return flops * samples / seconds / peak if samples and seconds else None

        return mean_of_kept(self.runs, of)

    @property
    def noisy(self) -> int:
        """How many runs were made on a machine that was not quiet."""
        return sum(bool(run.summary.noise) for run in self.runs)

    @property
    def restarts(self) -> str:
        """How often its runs went on after a kill, or were begun again; empty if never."""
        each = [run.summary for run in self.runs]
        return format_restarts(sum(run.restarts for run in each), sum(run.aborted for run in each))


def values(runs: Iterable[RunReview], of: Callable[[RunReview], float | None]) -> list[float]:
    """The known figures of the runs that reached the target."""
    return [value for run in runs if run.converged and (value := of(run)) is not None]


def all_values(runs: Sequence[RunReview], of: Callable[[RunReview], float | None]) -> list[float]:
    """The figures of the runs that reached the target; none if one of them is not known."""
    found = values(runs, of)
    return found if len(found) == sum(run.converged for run in runs) else []


def currency(runs: Iterable[RunReview]) -> str | None:
    """The currency of all costs; None if there is no single one."""
    found = {run.summary.currency for run in runs}
    return found.pop() if len(found) == 1 else None


def energy_source(runs: Iterable[RunReview]) -> str:
    """What the energies were measured by; ESTIMATED if one of them, or that of one of its nodes, was not measured."""
    found = sorted({run.summary.energy_source for run in runs if run.summary.energy_source})
    return ESTIMATED if any(ESTIMATED in each.split("+") for each in found) else ", ".join(found)


def multiplied(entry: Entry) -> list[RunReview]:
    """The result's runs with times as its score counts them: multiplied by `normalisation`, where there is one."""
    factor = 1.0 if entry.normalisation is None else entry.normalisation
    times = [run.summary.seconds for run in entry.runs]
    return [
        replace(run, summary=replace(run.summary, seconds=None if seconds is None else seconds * factor))
        for run, seconds in zip(entry.runs, times, strict=True)
    ]


def kept(runs: Sequence[RunReview], dropped: int = 1) -> list[RunReview]:
    """The runs that the olympic mean of the times keeps; none if there is no score.

    It drops `dropped` of the fastest and as many of the slowest; those that did not reach the target are the slowest.
    """
    reached = sorted((run for run in runs if run.converged), key=lambda run: run.summary.seconds or 0.0)
    most = dropped if len(runs) >= DROPS_FROM else 0
    return reached[most : len(runs) - most] if len(runs) - len(reached) <= most else []


def mean_of_kept(runs: Sequence[RunReview], of: Callable[[RunReview], float | None]) -> float | None:
    """The mean of a figure over the runs that the olympic mean of the times keeps; None where one is not known."""
    found = all_values(kept(runs), of)
    return statistics.fmean(found) if found else None


def scored_by(entry: Entry) -> str:
    """What a score that is not the plain olympic mean has to be shown with; empty if it is."""
    if entry.seconds is None:
        return ""
    count, factor = len(entry.runs), entry.normalisation
    if factor is not None and factor != 1:
        return f"{mean_of(count)} times {factor:.5g}"
    return mean_of(count) if count < DROPS_FROM else ""


def one_seed(runs: Sequence[RunReview]) -> list[str]:
    """The remark on several runs that share their seed, whose spread tells nothing of how other seeds would do."""
    shared = len(runs) > 1 and len({run.seed for run in runs}) == 1 and runs[0].seed is not None
    return ["ONE SEED"] if shared else []


def remarks(entry: Entry) -> list[str]:
    """The remarks that go with any figure of the result. Whether an energy is estimated is shown with the energy."""
    count = len(entry.runs)
    made = {"fail": ["NOT COMPLIANT"], "error": ["NOT CHECKED"], "pass": []}[entry.verdict]
    made += [f"{count - entry.reached} of {count} {entry.lost}"] if entry.reached < count else []
    made += ["NO SCORE"] if entry.seconds is None else []
    made += [f"{count} OF {entry.runs_needed} RUNS"] if entry.short else []
    made += ["NO REFERENCE POINTS"] if entry.unheld else []
    made += one_seed(entry.runs)
    made += [f"{entry.noisy} of {count} NOISY"] if entry.noisy else []
    made += [f"{entry.partial} of {count} ENERGY IN PART"] if entry.partial else []
    made += [f"{entry.part:g} OF THE DATA"] if entry.part is not None else []
    made += ["OWN PRICE"] if entry.own_price else []
    return made + ([entry.restarts.upper()] if entry.restarts else [])
