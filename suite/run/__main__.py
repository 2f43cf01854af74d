"""`python -m suite.run`: train a benchmark to its target and leave evidence. `--help` explains the options."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.table import Table

from suite import config
from suite.config import folder
from suite.config.plan import Plan
from suite.errors import USER_ERROR, UserError, command, complain, unknown
from suite.harness import session
from suite.harness.folder import locked, refuse_used
from suite.harness.implementation import load_implementation
from suite.measure.machine import detect
from suite.record.evidence import MANIFEST
from suite.record.mirror import tracking_uri, without_secrets
from suite.record.scoring import olympic_mean
from suite.record.summary import Summary, format_cost, format_energy, format_seconds
from suite.record.system import DIVISIONS, STATUSES
from suite.rules.verdict import review
from suite.run import planning
from suite.store.arrays import prepared
from suite.store.task import check_metric, load_task

BUDGET_ENDED = 3
TEXTS = ("out", "data_dir", "resume", "submitter")
GROUPS = {"task": "task", "hw": "system", "framework": "framework"}


def main(argv: list[str]) -> int:
    """Run the command line `argv` and return its exit code: 0 target reached, 2 user's mistake, 3 not reached."""
    if {"-h", "--help"} & set(argv):
        print(_help())
        return 0
    if not argv:
        raise UserError(f"which task? Give task= one of: {', '.join(config.names('task'))} (--help explains them).")
    argv = _complete(argv)
    codes: list[int] = []

    def job(options: DictConfig) -> None:
        choices = {group: str(HydraConfig.get().runtime.choices[group]) for group in GROUPS}
        overrides = OverridesParser.create().parse_overrides(list(HydraConfig.get().overrides.task))
        given = {override.key_or_group: str(override.value()) for override in overrides}
        try:
            codes.append(_run(OmegaConf.to_container(options, resolve=True), choices, given))  # type: ignore[arg-type]
        except (UserError, OSError) as error:
            complain(error)
            codes.append(USER_ERROR)

    sys.argv = ["suite.run", *argv]
    hydra.main(version_base="1.3", config_path=str(folder.CONF), config_name="config")(job)()
    return next((code for code in codes if code), 0)


def _run(options: dict[str, Any], choices: dict[str, str], given: dict[str, str]) -> int:
    for name in ("dry_run", "mlflow"):
        if not isinstance(options[name], bool):
            raise UserError(f"{name}={options[name]} is neither true nor false")
    found = detect()
    if options["resume"]:
        made = planning.from_evidence(Path(str(options["resume"])), given, found)
    else:
        made = planning.from_options(options, choices, found)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 120
    _print_plan(console, made)
    if options["dry_run"]:
        return 0
    if not options["resume"]:
        refuse_used(made.out)
    module = load_implementation(made.benchmark.task, made.framework)
    accelerators = made.system.accelerators_per_node * made.system.nodes
    if accelerators > module.ACCELERATORS:
        raise UserError(
            f"hw={made.system.name} has {accelerators} accelerators; {made.benchmark.task} in {made.framework.title} "
            f"trains on {module.ACCELERATORS}: choose one with CUDA_VISIBLE_DEVICES=0 and hw=auto"
        )
    task = load_task(made.benchmark.task)
    check_metric(made.benchmark, task)
    data = prepared(made.benchmark, task, options["data_dir"])
    timed = session.Session(made, found, task, module, data, console, options["mlflow"])
    summaries: list[Summary] = []
    stopped = False
    with locked(made.out):
        if not options["resume"]:
            refuse_used(made.out)
        for index in range(1, len(made.seeds) + 1):
            ended_before = (made.folder(index) / MANIFEST).exists()
            summaries.append(timed.run(index))
            stopped = summaries[-1].reason == "interrupt" and not ended_before
            if stopped:
                break
    _print_result(console, made, summaries, options["mlflow"])
    reviewed = review(made.out, options["data_dir"])
    severities = Counter(finding.severity for finding in reviewed.findings)
    listed = ", ".join(f"{severity}: {count}" for severity, count in severities.items())
    console.print(f"verdict   {reviewed.verdict}" + (f" ({listed})" if listed else ""), soft_wrap=True)
    if stopped:
        return 130
    return 0 if all(summary.converged for summary in summaries) else BUDGET_ENDED


def _complete(argv: list[str]) -> list[str]:
    """Check the names on the command line before Hydra sees them; take the task of a resumed run from its evidence."""
    options = dict(item.split("=", 1) for item in argv if "=" in item and not item.startswith("-"))
    allowed = [*config_options(), *GROUPS]
    for name in options:
        bare = name.lstrip("+~")
        if bare.split(".")[0] not in [*allowed, "hydra"] or (bare in GROUPS and name != bare):
            raise unknown("option", name, allowed)
    for item in argv:
        bare = item.lstrip("-").split("=")[0]
        if item.startswith("-") and bare in allowed:
            raise UserError(f"{item!r}: options have no dashes; write {bare}=VALUE")
        if "=" not in item and not item.startswith("-"):
            raise UserError(f"{item!r} is not of the form option=value; for example seed=1")
    if "task" not in options:
        if not options.get("resume"):
            raise UserError(f"which task? Give task= one of: {', '.join(config.names('task'))}.")
        argv = [*argv, f"task={planning.stored(Path(options['resume']))['task']}"]
    for group, kind in GROUPS.items():
        for name in options.get(group, "").split(","):
            if name and name not in config.names(group):
                raise unknown(kind, name, config.names(group))
    for task in options.get("task", "").split(","):
        for scale in options.get("scale", "").split(","):
            if task and scale and scale not in config.scales(task):
                raise unknown(f"scale of {task}", scale, config.scales(task))
    if not {"-m", "--multirun"} & set(argv):
        argv = [_verbatim(item) for item in argv]
    _compose(argv)
    return argv


def _verbatim(item: str) -> str:
    """An option whose value is a path or a name, so that Hydra takes each character of it as it stands."""
    name, _, value = item.partition("=")
    if name not in TEXTS or value in ("", "null") or (value[0] in "'\"" and value[0] == value[-1] and len(value) > 1):
        return item
    return f"{name}='" + value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\${") + "'"


def _compose(argv: list[str]) -> None:
    """Let Hydra compose the overrides, of a sweep the first values, so that its complaint becomes one line."""
    try:
        parsed = OverridesParser.create().parse_overrides([item for item in argv if not item.startswith("-")])
        overrides = [_first(each) for each in parsed]
        with hydra.initialize_config_dir(str(folder.CONF), version_base="1.3"):
            OmegaConf.to_container(hydra.compose("config", overrides), resolve=True)
    except Exception as error:  # Hydra's parser, composer and OmegaConf each raise families of their own
        raise UserError(f"{str(error).splitlines()[0]} (the values of conf/ are those that can be set)") from error


def _first(override: Override) -> str:
    if override.is_sweep_override():
        return f"{override.get_key_element()}={next(override.sweep_string_iterator())}"
    return str(override.input_line)


def config_options() -> list[str]:
    """The options of `conf/config.yaml` that are not groups."""
    values = OmegaConf.load(folder.CONF / "config.yaml")
    return [str(name) for name in values if name not in ("defaults", "hydra")]


def _print_plan(console: Console, made: Plan) -> None:
    benchmark, system = made.benchmark, made.system
    table = Table.grid(padding=(0, 2))
    rows = {
        "benchmark": f"{benchmark.name}: {benchmark.title}",
        "target": f"{benchmark.metric} {'>=' if benchmark.direction == 'higher' else '<='} {benchmark.target:g}, "
        f"evaluated after {benchmark.evaluation.first:,} samples and then every {benchmark.evaluation.every:,}; "
        f"budget {benchmark.budget_samples:,}",
        "data": f"{benchmark.dataset.name} ({benchmark.dataset.licence})",
        "framework": f"{made.framework.title}, {made.precision} on {made.system.device_kind}",
        "system": f"{system.name}: {system.title}",
        "price": _price(made),
        "seeds": ", ".join(map(str, made.seeds)),
        "evidence": str(made.out),
    }
    for name, text in rows.items():
        table.add_row(name, text)
    console.print(table)


def _print_result(console: Console, made: Plan, summaries: list[Summary], mlflow: bool) -> None:
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
            format_energy(summary.joules, summary.energy_source),
        )
    console.print(table)
    for index, summary in enumerate(summaries, 1):
        if summary.noise:
            console.print(f"run {index} is NOISY: {'; '.join(summary.noise)}", style="yellow", soft_wrap=True)
    if len(summaries) > 1:
        mean = olympic_mean([summary.seconds if summary.converged else None for summary in summaries])
        console.print(f"time to quality, olympic mean of {len(summaries)} runs: {format_seconds(mean)}")
    console.print(f"price     {_price(made)}", soft_wrap=True)
    console.print(f"evidence  {made.out}", soft_wrap=True)
    console.print(f"review    python -m suite.review {made.out}", soft_wrap=True)
    uri = without_secrets(tracking_uri())
    then = f"python -m mlflow ui --backend-store-uri {uri}" if mlflow else f"python -m suite.sync {made.out}"
    console.print(f"mlflow    {then}", soft_wrap=True)


def _price(made: Plan) -> str:
    system = made.system
    price, unit = system.price_per_hour, "hour"
    if price is None:
        price, unit = system.price_per_cpu_hour, "logical CPU and hour"
    if price is None:
        return "not known; give it with hw.price_per_hour="
    if system.price is None:
        return f"{price:g} per {unit}, as given"
    source = system.price
    return (
        f"{price:g} {source.currency} per {unit}: {source.provider} {source.instance}, {source.region}, {source.date}"
    )


def _help() -> str:
    lines = [
        "python -m suite.run task=TASK [option=value ...]",
        "",
        "Train a task's reference model to its target quality; report time, cost and energy; leave evidence.",
        "",
        "Tasks and their scales:",
    ]
    for task in config.names("task"):
        lines.append(f"  {task}: {config.load('task', task)['title']}")
        for scale in config.scales(task):
            benchmark = config.benchmark(task, scale)
            lines.append(f"    scale={scale:<7} {benchmark.title}; {benchmark.metric} {benchmark.target:g}")
    lines += ["", "Systems (hw=):"]
    lines += [f"  {name:<8} {config.load('hw', name)['title']}" for name in config.names("hw")]
    lines += ["", "Frameworks (framework=):"]
    lines += [f"  {name:<11} {config.load('framework', name)['title']}" for name in config.names("framework")]
    lines += [
        "",
        "Options:",
        "  scale=NAME         the size of the task; default: the system's own, which the plan prints",
        "  seed=N             fixes data order, initialisation, augmentation; default: drawn from the system's entropy",
        "  runs=N             N runs with distinct seeds and their olympic mean",
        "  out=FOLDER         where the evidence goes; default: runs/<what>-<when>",
        "  data_dir=FOLDER    where datasets lie or are downloaded to; default: $SUITE_DATA, else the cache folder",
        "  resume=FOLDER      go on with an interrupted run, on the same log and the same clock",
        "  dry_run=true       print the plan and stop",
        "  mlflow=false       do not feed MLflow while training; python -m suite.sync FOLDER does it later",
        "  submitter=NAME     your organisation, as the log and the system description name it",
        f"  division=NAME      {' or '.join(DIVISIONS)}; what each allows is in rules.md; default: {DIVISIONS[0]}",
        f"  category=NAME      of the system: {', '.join(STATUSES)}; default: research",
        "  hw.price_per_hour=X   your own price; any value of conf/ can be set this way",
        "  -m seed=1,2,3      Hydra multirun: one command line for each combination of values",
        "",
        "Exit code: 0 target reached, 3 the budget ended first, 2 a mistake in the command, 130 Ctrl-C.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    command(main)
