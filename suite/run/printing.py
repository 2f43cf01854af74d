"""What a run prints: its plan, what it took, and the verdict of the review."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from mlperf_logging.mllog.constants import GLOBAL_BATCH_SIZE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from suite import config
from suite.config.contestant import Contestant
from suite.config.models import Benchmark
from suite.config.plan import Plan
from suite.errors import printable
from suite.measure.machine import Machine
from suite.measure.systems import mismatch, power_ceiling
from suite.record.scoring import mean_of, olympic_mean
from suite.record.summary import Summary, format_cost, format_count, format_energy, format_restarts, format_seconds
from suite.record.tables import plain_console, show_table
from suite.record.tracking_server import tracking_uri, without_secrets
from suite.rules.foreseen import breaches
from suite.rules.verdict import Review
from suite.store import files


class _Unread(Console):
    """A console that falls silent, while training goes on, if nobody reads it (`| head`) or it cannot be written to."""

    def _check_buffer(self) -> None:
        try:
            super()._check_buffer()
        except OSError:  # the terminal has gone, or the disk is full
            self.on_broken_pipe()

    def on_broken_pipe(self) -> None:
        """Print nothing more; rich itself would end the process."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def console() -> Console:
    """The terminal; where there is none, lines of 120 characters."""
    return plain_console(120, _Unread)


def plan(
    to: Console,
    made: Plan,
    found: Machine,
    data_dir: str | None,
    told: Mapping[str, str],
    elsewhere: bool = False,
) -> None:
    """Print the plan and the additional rows `told`; the machine that was `found` need not be the plan's system.

    `elsewhere` says that the plan is for other machines in any case.
    """
    benchmark, system = made.benchmark, made.system
    table = Table.grid(padding=(0, 2))
    rows = {
        "benchmark": f"{benchmark.name}: {benchmark.title}",
        "target": f"{benchmark.metric} {'>=' if benchmark.direction == 'higher' else '<='} {benchmark.target:g}, "
        f"evaluated after {benchmark.evaluation.first:,} samples and then every {benchmark.evaluation.every:,}; "
        f"budget {benchmark.budget_samples:,}",
        **({"steps": steps} if (steps := _steps(made)) else {}),
        "data": _data(benchmark, files.root(data_dir)),
        **({"implementation": _implementation(made.contestant)} if made.contestant else {}),
        "framework": f"{made.framework.title}, {_precision(made, found)} on {system.device_kind}",
        "system": f"{system.name}: {f'{system.nodes} nodes of ' if system.nodes > 1 else ''}{system.title}",
        "price": _price(made),
        "power": _power(made, found),
        **({"changed": changed} if (changed := _changed(benchmark)) else {}),
        "seeds": ", ".join(map(str, made.seeds)) + (f", drawn by token={made.token}" if made.token else ""),
        **told,
        "evidence": str(made.out),
        **({"witness": made.witness} if made.witness else {}),
    }
    for name, text in rows.items():
        table.add_row(name, Text(printable(text), overflow="fold"))
    to.print(table)
    for why in breaches(made, None if elsewhere or mismatch(system, found) else found):
        to.print(Text(f"It could not be submitted to the {made.division} division: {why}", "yellow"), soft_wrap=True)


def _steps(made: Plan) -> str | None:
    """How many steps the budget has, of how many samples; None if the benchmark has no batch size."""
    size = made.benchmark.hyperparameters.get(GLOBAL_BATCH_SIZE)
    if size is None:
        return None
    workers = made.system.world_size
    each = f"{size / workers:,.1f}".removesuffix(".0")
    share = f", {each} for each of {workers} workers" if workers > 1 else ""
    return f"at most {-(-made.benchmark.budget_samples // size):,} of {size:,} samples{share}"


def _data(benchmark: Benchmark, root: Path) -> str:
    """The dataset, the share that a pilot takes, and what is still to be brought or made, and where."""
    dataset = benchmark.dataset
    part = f", {dataset.subset:g} of it, a pilot" if dataset.subset else ""
    if not (missing := files.missing_bytes(dataset, root)):
        return f"{dataset.name} ({dataset.licence}){part}"
    free = files.free_bytes(root)
    if dataset.in_forms:
        return (
            f"{dataset.name} ({dataset.licence}){part}; {_size(missing)} are to be {dataset.in_forms}, in "
            f"{root}, which has {free / 1e9:,.1f} GB free"
        )
    brought, made = missing, ""
    if dataset.made is not None:
        dataset = dataset.source_files
        brought = files.missing_bytes(dataset, root)
        made = f"; {_size(missing)} are to be made of them there"
    return (
        f"{dataset.name} ({dataset.licence}){part}; {_size(brought)} of {_size(dataset.bytes)} are to be "
        f"brought to {root}, which has {free / 1e9:,.1f} GB free{made}"
    )


def _size(count: int) -> str:
    return f"{count / 1e9:,.2f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"


def _changed(benchmark: Benchmark) -> str:
    """The hyperparameters, with their values, that differ from the suite's: those that were set or that follow."""
    usual = config.benchmark(benchmark.task, benchmark.scale).hyperparameters
    return ", ".join(f"{name} {value}" for name, value in benchmark.hyperparameters.items() if value != usual.get(name))


def obstacles(to: Console, nowhere: str | None, here: Sequence[str], memory: str | None) -> None:
    """Print why no machine, or not this one, could run the plan, or memory may not suffice; nothing if all is well."""
    if nowhere:
        to.print(Text(f"No machine could run it yet: {nowhere}", "yellow"), soft_wrap=True)
    for why in here:
        to.print(Text(f"It could not be run here: {why}", "yellow"), soft_wrap=True)
    if memory:
        to.print(Text(memory, "yellow"), soft_wrap=True)


def result(to: Console, made: Plan, summaries: Sequence[Summary], mlflow: bool, data_dir: str | None) -> None:
    """Print what the runs took, and what to do with their evidence."""
    table = Table("run", "seed", "ended at", made.benchmark.metric, "samples", "time", "cost", "energy")
    for index, summary in enumerate(summaries, 1):
        table.add_row(
            str(index),
            str(made.seeds[index - 1]),
            summary.reason,
            "none" if summary.quality is None else f"{summary.quality:.4g}",
            f"{summary.samples:,}",
            format_seconds(summary.seconds),
            format_cost(summary.cost, summary.currency),
            format_energy(summary.joules, summary.energy_source, summary.coverage),
        )
    show_table(to, table)
    for index, summary in enumerate(summaries, 1):
        before, after = format_restarts(0, summary.aborted), format_restarts(summary.restarts, 0)
        for said, where in ((before, " as initialisation"), (after, "")):
            if said:
                to.print(f"run {index}: {said}, whose time counts{where}", style="yellow", soft_wrap=True)
        if summary.noise:
            to.print(f"run {index} is NOISY: {'; '.join(summary.noise)}", style="yellow", soft_wrap=True)
    if len(summaries) > 1:
        mean = olympic_mean([summary.seconds if summary.converged else None for summary in summaries])
        to.print(f"time to quality, {mean_of(len(summaries))}: {format_seconds(mean)}")
    to.print(f"price     {_price(made)}", soft_wrap=True)
    to.print(f"evidence  {made.out}", soft_wrap=True)
    out, uri = shlex.quote(str(made.out)), without_secrets(tracking_uri())
    to.print(f"review    suite review {out}{files.data_option(data_dir)}", soft_wrap=True)
    seen = uri if uri.startswith("http") else f"python -m mlflow ui --backend-store-uri {shlex.quote(uri)}"
    to.print(f"mlflow    {seen if mlflow else f'python -m suite.sync {out}'}", soft_wrap=True)


def go_on(to: Console, resume: str, launcher: str | None) -> None:
    """Print the command that resumes an interrupted run, with the options `resume` and the same launcher."""
    command = {None: "python -m", "torchrun": "torchrun ... -m", "srun": "srun ... python -m"}[launcher]
    to.print(f"go on     {command} suite.run {resume}", soft_wrap=True)


def verdict(to: Console, reviewed: Review) -> None:
    """Print the verdict of a review, the rules it rests on, the score where it is not the mean of the times, and why
    samples were not held to the reference, if so.
    """
    severities = Counter(finding.severity for finding in reviewed.findings)
    listed = ", ".join(f"{severity}: {count}" for severity, count in severities.items())
    rules = ", ".join(dict.fromkeys(each.rule for each in reviewed.findings if each.severity == reviewed.verdict))
    said = reviewed.verdict + (f": {rules}" if rules else "") + (f" ({listed})" if listed else "")
    to.print(f"verdict   {said}", soft_wrap=True)
    for result in reviewed.results:
        if result.normalisation != 1 and result.score_s is not None:
            mean, factor = format_seconds(result.score_s / result.normalisation), f"{result.normalisation:.5g}"
            said = f"{format_seconds(result.score_s)}: {mean} times {factor} for its few samples (convergence.2)"
            to.print(f"score     {said}", soft_wrap=True)
        if result.unheld:
            to.print(f"samples   {result.unheld}", soft_wrap=True)


def _implementation(contestant: Contestant) -> str:
    revision = "of no git revision" if contestant.revision is None else f"of git revision {contestant.revision[:12]}"
    changed = ", with changes" if contestant.dirty else ""
    return f"{contestant.name}: {format_count(len(contestant.files), 'file')} {revision}{changed}"


def _precision(made: Plan, found: Machine) -> str:
    """The precision; for a machine that is elsewhere only a declared one is known."""
    if made.benchmark.precision or made.system.precision or not mismatch(made.system, found):
        return made.precision
    return "bf16 where its accelerators have it, else fp16,"


def _price(made: Plan) -> str:
    system = made.system
    price, unit = system.price_per_hour, "hour and node" if system.nodes > 1 else "hour"
    if price is None:
        price, unit = system.price_per_cpu_hour, "logical CPU and hour"
    if price is None:
        return "not known; give it with hw.price_per_hour="
    if system.price is None:
        return f"{price:g} per {unit}, as given"
    source = system.price
    where = (f"{source.provider} {source.instance}".strip(), source.region, source.date)
    return f"{price:g} {source.currency} per {unit}: {', '.join(filter(None, where))}"


def _power(made: Plan, found: Machine) -> str:
    watts = power_ceiling(made.system, found)
    if watts is None:
        return "ceiling not known; hw.power_ceiling_w= gives one, but a run with it cannot be submitted (system.3)"
    return f"at most {watts:g} W" + (" of each node" if made.system.nodes > 1 else "")
