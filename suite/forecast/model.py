"""Make a forecast: draw many runs from the samples that the reference needed and the rates of each part of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from suite.config.models import Benchmark, System
from suite.forecast.needed import Needed, evaluations
from suite.forecast.rates import Rates
from suite.measure.cost import price_per_hour
from suite.measure.machine import Machine

DRAWS = 20_000
COVERAGE = 0.9
SEED = 0


@dataclass(frozen=True)
class Range:
    """The median of the drawn runs, and the interval that holds `COVERAGE` of them."""

    low: float
    median: float
    high: float


@dataclass(frozen=True)
class Forecast:
    """What a run to the target is expected to take. What cannot be known is None.

    `shares` has the share of each part in the mean time of a run, 0 to 1; None for an unknown one, which `compute` then
    includes. `limited_by` is the largest. `measured` is false for an estimate from peak rates or bricks. `published` is
    the source of samples that are not of the reference's runs, else empty.
    """

    benchmark: str
    system: str
    framework: str
    samples: Range
    seconds: Range
    joules: Range | None
    cost: Range | None
    currency: str | None
    shares: Mapping[str, float | None]
    limited_by: str
    source: str
    measured: bool
    published: str
    notes: tuple[str, ...]


def forecast(needed: Needed, rates: Rates, system: System, machine: Machine, framework: str) -> Forecast:
    """Forecast a run on a system, of which `machine` is a node."""
    rng = np.random.default_rng(SEED)
    runs = needed.draw(DRAWS, rng)
    benchmark = needed.benchmark
    of_rates = rng.integers(len(rates.step), size=DRAWS)
    budget = np.full(DRAWS, float(benchmark.budget_samples))
    last, lost = (parts(benchmark, rates, samples, of_rates) for samples in (runs.samples, budget))
    spent = {name: last[name] + runs.failed * lost[name] for name in last}
    seconds = np.sum(list(spent.values()), axis=0)
    whole = {name: float(np.mean(each)) / float(np.mean(seconds)) for name, each in spent.items()}
    unknown = {"input"} if rates.data is None else set()
    price = price_per_hour(system, machine)
    watts = None if rates.watts is None else rates.watts * system.nodes
    return Forecast(
        benchmark=benchmark.name,
        system=system.name,
        framework=framework,
        samples=_range(runs.samples + runs.failed * benchmark.budget_samples),
        seconds=_range(seconds),
        joules=None if watts is None else _range(seconds * watts),
        cost=None if price is None else _range(seconds * price / 3600),
        currency=system.price.currency if system.price else None,
        shares={name: None if name in unknown else share for name, share in whole.items()},
        limited_by=max(whole, key=lambda name: whole[name]),
        source=rates.source,
        measured=rates.measured,
        published=needed.published,
        notes=tuple(filter(None, (needed.said, runs.said, needed.note, *rates.notes))),
    )


def samples_to_target(needed: Needed) -> Range:
    """The samples to the target, including those of failed runs before."""
    runs = needed.draw(DRAWS, np.random.default_rng(SEED))
    return _range(runs.samples + runs.failed * needed.benchmark.budget_samples)


def parts(benchmark: Benchmark, rates: Rates, samples: np.ndarray, of_rates: np.ndarray) -> dict[str, np.ndarray]:
    """Seconds of the parts of runs that end after `samples`; `of_rates` has the index of each run's rates."""
    steps, data = np.ceil(samples / rates.samples), rates.data or 0.0
    training = steps * rates.steps_until(samples, of_rates)
    return {
        "compute": training * (1 - data),
        "input": training * data,
        "evaluation": evaluations(benchmark, samples, rates.samples) * rates.evaluation[of_rates],
        "communication": steps * benchmark.exchanges_per_step * rates.communication,
        "start": np.full(len(samples), rates.start),
    }


def _range(values: np.ndarray) -> Range:
    low, median, high = np.quantile(values, [(1 - COVERAGE) / 2, 0.5, (1 + COVERAGE) / 2])
    return Range(float(low), float(median), float(high))
