"""The plan of a command: which benchmark, system, framework and seeds, made from the configuration or from evidence."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from suite import config
from suite.config.models import Benchmark, System
from suite.config.plan import Plan
from suite.errors import UserError, unknown
from suite.harness import seeds
from suite.measure import machine
from suite.measure.machine import Machine
from suite.record import evidence
from suite.record.parsing import yaml_mapping
from suite.record.system import DIVISIONS, STATUSES
from suite.store.disk import read_safely


def from_options(options: Mapping[str, Any], choices: Mapping[str, str], found: Machine) -> Plan:
    """The plan for a composed configuration and its choices of task, hw and framework.

    Raises UserError for a value that is not allowed and for a machine that is not the system asked for.
    """
    runs, seed = options["runs"], options["seed"]
    for name, value in (("runs", runs), ("seed", seed)):
        if (not isinstance(value, int) or isinstance(value, bool)) and not (name == "seed" and value is None):
            raise UserError(f"{name}={value} is not a whole number")
    division, category = str(options["division"]), str(options["category"])
    if division not in DIVISIONS:
        raise unknown("division", division, DIVISIONS)
    if category not in STATUSES:
        raise unknown("category", category, STATUSES)
    system = machine.resolve(config.system(choices["hw"], options["hw"]), found)
    benchmark = config.benchmark(choices["task"], options["scale"] or system.default_scale, options["task"])
    framework = config.framework(choices["framework"])
    result_id = uuid.uuid4().hex
    stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{result_id[:4]}"  # commands of one second keep apart
    out = options["out"] or f"runs/{benchmark.task}-{benchmark.scale}-{framework.name}-{system.name}-{stamp}"
    return Plan(
        benchmark=benchmark,
        system=system,
        framework=framework,
        precision=benchmark.precision or machine.precision_of(system, found),
        seeds=seeds.draw(runs, seed),
        result_id=result_id,
        submitter=str(options["submitter"]),
        division=division,
        status=STATUSES[category],
        out=Path(str(out)),
    )


_WITH_RESUME = ("resume", "data_dir", "mlflow", "dry_run")
_STORED = {"task", "scale", "framework", "precision", "submitter", "result_id", "runs", "seeds", "system", "benchmark"}


def stored(out: Path) -> dict[str, Any]:
    """The resolved configuration of the first run in `out`. Raises UserError if there is none to go on from."""
    for path in (out / evidence.CONFIG, out / "run_1" / evidence.CONFIG):
        try:
            if path.exists():
                values, _ = yaml_mapping(read_safely(path))
                if values.keys() >= _STORED and isinstance(values["system"], dict):
                    return values
        except (OSError, ValueError) as error:
            raise UserError(f"resume={out}: {path.name} cannot be read ({error})") from error
    raise UserError(f"resume={out} holds no run: give the out= folder of an interrupted run")


def from_evidence(out: Path, given: Mapping[str, str], found: Machine) -> Plan:
    """The plan to go on with, from what an interrupted command left in `out`.

    `given` holds the options on the command line. Raises UserError where one contradicts the stored run, and where it
    would have to change it.
    """
    values = {"division": DIVISIONS[0], "status": STATUSES["research"]} | stored(out)  # older evidence lacks them
    known = {
        **{name: values[name] for name in ("task", "scale", "framework", "runs", "submitter", "division")},
        "category": next(category for category, status in STATUSES.items() if status == values["status"]),
        "hw": values["system"]["name"],
        "seed": values["seeds"][0],
    }
    for name, value in known.items():
        if name in given and given[name] not in (str(value), "auto"):
            raise UserError(f"{name}={given[name]} contradicts resume={out}, which is a run of {name}={value}")
    for name, value in given.items():
        same = Path(value) == out if name == "out" else _equal(value, _stored_at(values, name.split(".")))
        if name not in (*known, *_WITH_RESUME) and not same:
            raise UserError(f"{name}={given[name]} comes too late: resume={out} goes on as it was begun. Leave it out.")
    system = config.checked(System, values["system"], f"{out}: system")
    machine.resolve(system, found)
    return Plan(
        benchmark=config.checked(Benchmark, values["benchmark"], f"{out}: benchmark"),
        system=system,
        framework=config.framework(values["framework"]),
        precision=values["precision"],
        seeds=tuple(values["seeds"]),
        result_id=values["result_id"],
        submitter=values["submitter"],
        division=values["division"],
        status=values["status"],
        out=out,
    )


def _stored_at(values: Mapping[str, Any], path: Sequence[str]) -> Any:
    """The stored value of an option like `hw.price_per_hour` or `task.scales.mini.target`, None if there is none."""
    at: Any = None
    if path[0] == "hw":
        at, path = values["system"], path[1:]
    elif tuple(path[:3]) == ("task", "scales", values["scale"]):
        at, path = values["benchmark"], path[3:]
    for name in path:
        at = at.get(name) if isinstance(at, dict) else None
    return at


def _equal(given: str, value: Any) -> bool:
    try:
        return value is not None and bool(yaml.safe_load(given) == value)
    except yaml.YAMLError:  # a text that means something else in YAML
        return bool(given == value)
