"""A result as the results page shows it, whichever ruleset judged it, and the figures that follow from its runs."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from suite.record.history import History
from suite.record.scoring import olympic_mean
from suite.rules.verdict import Verdict

ESTIMATED = "estimated"  # the energy source that is no measurement


@dataclass(frozen=True)
class Run:
    """One run. `path` is its log's, relative to `Entry.source`; what is not known is None.

    `seconds` runs from run_start to run_stop, whether or not the target was `reached`; `noise` are the reasons for
    which the machine was not quiet. `lost` says what it means that a run did not reach its target: of MLPerf's logs
    only those that comply are known to have reached it.
    """

    path: str
    verdict: Verdict
    reached: bool
    seed: int | None
    quality: float | None
    samples: int | None
    seconds: float | None
    cost: float | None
    currency: str | None
    joules: float | None
    energy_source: str | None
    noise: tuple[str, ...]
    history: History
    lost: str = "NOT REACHED"


@dataclass(frozen=True)
class Entry:
    """One result: the runs of one benchmark on one system in one framework, of one submitter.

    `source` is the folder that was read, `path` the result's folder in it. `seconds` is the score, the olympic mean of
    the times to quality multiplied by `normalisation`; None where the ruleset gives none, or no usable factor.
    `machine` says what the system is made of, `accelerators` how many it has. `findings` counts what breaks a rule or
    could not be checked.
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
    verdict: Verdict
    findings: int
    seconds: float | None
    normalisation: float | None
    runs_needed: int | None
    runs: tuple[Run, ...]

    @property
    def reached(self) -> int:
        """How many runs reached the target."""
        return sum(run.reached for run in self.runs)

    @property
    def times(self) -> list[float]:
        """The times to quality in seconds, ascending."""
        return sorted(values(self.runs, lambda run: run.seconds))

    @property
    def cost(self) -> float | None:
        """The mean cost of the runs that the olympic mean of the time keeps, in `currency`."""
        return mean_of_kept(self.runs, lambda run: run.cost) if self.currency else None

    @property
    def currency(self) -> str | None:
        """The currency of every run's cost; None where it is not one."""
        found = {run.currency for run in self.runs}
        return found.pop() if len(found) == 1 else None

    @property
    def joules(self) -> float | None:
        """The mean energy of the runs that the olympic mean of the time keeps."""
        return mean_of_kept(self.runs, lambda run: run.joules)

    @property
    def energy_source(self) -> str | None:
        """What the energies were measured by; `estimated` if any of them was not measured."""
        found = {run.energy_source for run in self.runs if run.energy_source is not None}
        return ESTIMATED if ESTIMATED in found else ", ".join(sorted(found)) or None

    @property
    def estimated(self) -> bool:
        """Whether the energy is no measurement."""
        return self.joules is not None and self.energy_source == ESTIMATED

    @property
    def noisy(self) -> int:
        """How many runs were made on a machine that was not quiet."""
        return sum(bool(run.noise) for run in self.runs)


def values(runs: Iterable[Run], of: Callable[[Run], float | None]) -> list[float]:
    """The known figures of the runs that reached the target."""
    return [value for run in runs if run.reached and (value := of(run)) is not None]


def score(runs: Sequence[Run]) -> float | None:
    """The olympic mean of the times to quality, in seconds."""
    return olympic_mean([run.seconds if run.reached else None for run in runs])


def mean_of_kept(runs: Sequence[Run], of: Callable[[Run], float | None]) -> float | None:
    """The mean of a figure over the runs that the olympic mean of the times keeps; None where one is not known."""
    if score(runs) is None:
        return None
    reached = sorted((run for run in runs if run.reached), key=lambda run: run.seconds or 0.0)
    if len(runs) >= 3:
        reached = reached[1 : len(runs) - 1]
    found = [of(run) for run in reached]
    known = [value for value in found if value is not None]
    return statistics.fmean(known) if known and len(known) == len(found) else None


def normalised(entry: Entry) -> str:
    """What has to stand by a score that is not the olympic mean itself; empty where it is."""
    factor = entry.normalisation
    return "" if entry.seconds is None or factor is None or factor == 1 else f"olympic mean times {factor:.5g}"


def remarks(entry: Entry) -> list[str]:
    """What has to stand wherever a figure of the result does; an energy says itself whether it is estimated."""
    count = len(entry.runs)
    made = {"fail": ["NOT COMPLIANT"], "error": ["NOT CHECKED"], "pass": []}[entry.verdict]
    lost = Counter(run.lost for run in entry.runs if not run.reached)
    made += [f"{number} of {count} {word}" for word, number in lost.items()]
    made += ["NO SCORE"] if entry.seconds is None else []
    return made + ([f"{entry.noisy} of {count} NOISY"] if entry.noisy else [])
