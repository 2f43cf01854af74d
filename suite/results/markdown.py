"""Results as Markdown tables for a document: one row for each run, then one for each framework."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from mlperf_logging.mllog import constants as keys

from suite.measure.energy import ESTIMATED
from suite.record.scoring import DROPS_FROM, mean_of, olympic_mean
from suite.record.summary import format_cost, format_energy, format_restarts, format_seconds
from suite.results.entry import GRADES, UNKNOWN, Entry, remarks, scored_by, values
from suite.review.model import SUITE
from suite.rules.verdict import RunReview, mean_time

_SPECIAL = re.compile(r"([\\`*{}\[\]<>#|~&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=//)|(?<=www)\.)", re.IGNORECASE)


def markdown(entries: Sequence[Entry]) -> str:
    """The tables of each benchmark on each machine of each submitter."""
    parts = []
    for _, each in groupby(sorted(entries, key=lambda entry: (*_group(entry), entry.trained_by)), _group):
        here = list(each)
        first = here[0]
        goal = "" if first.target is None else f"; target: {text(first.metric)} {first.target:g}"
        part = "" if first.part is None else f" with {first.data}"
        precision = "" if first.precision == UNKNOWN else f" in {text(first.precision)}"
        recipe = _recipe(first, [entry for entry in entries if _alike(entry) == _alike(first)])
        rules = "" if first.ruleset == SUITE else f", rules {text(first.ruleset)}"
        parts.append(
            f"**{text(first.benchmark)}**{part} on {text(first.system)} ({text(first.machine)}){precision}{recipe} by "
            f"{text(first.submitter)}, {text(first.division)}{rules}{goal}\n"
        )
        parts.append("\n".join([*_runs(here), "", *_frameworks(here)]) + "\n")
    return "\n".join(parts)


def _group(entry: Entry) -> tuple[str, ...]:
    """What results must have in common to stand in one table."""
    return (*_alike(entry), *sorted(map(str, entry.recipe.items())))


def _alike(entry: Entry) -> tuple[str, ...]:
    made = (entry.benchmark, entry.data, entry.system, entry.machine, entry.precision)
    return (*made, entry.submitter, entry.division, entry.ruleset)


def _recipe(entry: Entry, others: Sequence[Entry]) -> str:
    """The batch size, and whatever of its recipe tells the result from others that are otherwise alike."""
    own, size = entry.recipe, keys.GLOBAL_BATCH_SIZE
    telling = [name for name in own if name == size or any(own[name] != each.recipe.get(name) for each in others)]
    said = [f"{'batch size' if name == size else text(name)} {text(own[name])}" for name in telling]
    return f" at {', '.join(said)}" if said else ""


def text(value: str) -> str:
    """`value` as one line of plain text in a table's cell, whatever it holds."""
    return _SPECIAL.sub(r"\\\1", " ".join(value.split())) or UNKNOWN


def _runs(entries: Sequence[Entry]) -> Iterator[str]:
    head = ("framework", "seed", "target reached", "time to quality", "samples to quality", "final quality", "energy")
    yield from _head((*head, "cost", "machine was", "review"))
    for entry in entries:
        for run in sorted(entry.runs, key=lambda run: (run.seed is None, run.seed)):
            samples = _count(run.summary.samples)
            noise, of_run = run.summary.noise, format_restarts(run.summary.restarts, run.summary.aborted)
            quiet = "NOISY: " + "; ".join(noise) if noise else "quiet" if entry.ruleset == SUITE else UNKNOWN
            yield _row(
                text(entry.trained_by),
                UNKNOWN if run.seed is None else str(run.seed),
                "yes" if run.converged else f"**{entry.lost}**",
                format_seconds(run.summary.seconds)
                if run.converged
                else f"none; ended after {format_seconds(run.summary.seconds)}",
                samples if run.converged else f"none; ended after {samples}",
                UNKNOWN if run.summary.quality is None else f"{run.summary.quality:.5g}",
                energy(run.summary.joules, run.summary.energy_source, run.summary.coverage),
                text(format_cost(run.summary.cost, run.summary.currency)),
                text(", ".join(filter(None, (quiet, of_run)))),
                "pass" if run.verdict == "pass" else f"**{run.verdict}**",
            )


def _frameworks(entries: Sequence[Entry]) -> Iterator[str]:
    head = ("framework", "reached", "time: olympic mean", "median (range)", "samples: olympic mean", "median (range)")
    yield from _head((*head, "energy, mean", "cost, mean", "seeds", "clock", "marks"))
    for framework, each in groupby(entries, lambda entry: entry.trained_by):
        made = _together(list(each))
        how = scored_by(made)
        yield _row(
            text(framework),
            f"{made.reached} of {len(made.runs)}",
            "no score" if made.seconds is None else format_seconds(made.seconds) + (f" ({how})" if how else ""),
            _spread(made.runs, lambda run: run.summary.seconds, format_seconds),
            _mean_samples(made.runs),
            _spread(made.runs, lambda run: run.summary.samples, lambda value: f"{value:,.0f}"),
            energy(made.joules, made.energy_source, made.coverage),
            text(format_cost(made.cost, made.currency)),
            text(made.seeds),
            text(made.clock),
            "; ".join(f"**{remark}**" for remark in remarks(made)) or "none",
        )


def _together(entries: Sequence[Entry]) -> Entry:
    """Merge results into one, with a score of all their runs if they share a factor; a single one stays as it is."""
    if len(entries) == 1:
        return entries[0]
    runs = tuple(run for entry in entries for run in entry.runs)
    worst = max((entry.verdict for entry in entries), key=GRADES.index)
    seeds, clock = (", ".join(sorted({getattr(entry, name) for entry in entries})) for name in ("seeds", "clock"))
    factors = {entry.normalisation for entry in entries}
    factor = factors.pop() if len(factors) == 1 else None
    mean = mean_time(runs)
    return replace(
        entries[0],
        runs=runs,
        verdict=worst,
        seeds=seeds,
        clock=clock,
        normalisation=factor,
        seconds=None if mean is None or factor is None else mean * factor,
        unheld=any(entry.unheld for entry in entries),
        own_price=any(entry.own_price for entry in entries),
    )


def energy(joules: float | None, source: str | None, coverage: float | None) -> str:
    """An energy as text, marked if it is an estimate or of a part of the time."""
    made = text(format_energy(joules, source, coverage))
    return f"~ {made}" if joules is not None and ESTIMATED in (source or "") else made


def _spread(runs: Sequence[RunReview], of: Callable[[RunReview], float | None], shown: Callable[[float], str]) -> str:
    """The median and the range of a figure over the runs that reached the target."""
    found = values(runs, of)
    if not found:
        return UNKNOWN if any(run.converged for run in runs) else "none"
    spread = f" ({shown(min(found))} to {shown(max(found))})" if len(found) > 1 else ""
    return shown(statistics.median(found)) + spread


def _mean_samples(runs: Sequence[RunReview]) -> str:
    if any(run.converged and run.summary.samples is None for run in runs):
        return UNKNOWN
    mean = olympic_mean([run.summary.samples if run.converged else None for run in runs])
    plain = f" ({mean_of(len(runs))})" if len(runs) < DROPS_FROM else ""
    return "no score" if mean is None else f"{mean:,.0f}{plain}"


def _count(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def _head(names: Sequence[str]) -> Iterator[str]:
    yield _row(*names)
    yield "|" + "---|" * len(names)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
