"""Resumes an interrupted run: its evidence holds the whole plan, and options may only repeat it, except for those that
each command gives anew.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from suite import config
from suite.config.contestant import Contestant
from suite.config.models import Benchmark, System
from suite.config.plan import Checkpointing, Plan
from suite.config.values import Values
from suite.errors import UserError, one_of
from suite.harness.contestant import OwnImplementation
from suite.harness.folder import configs
from suite.record import evidence
from suite.record.parsing import value_at, yaml_mapping
from suite.record.system import DIVISIONS, STATUSES
from suite.store.code import CODE, differing
from suite.store.disk import read_safely

_OF_COMMAND = ("implementation", "data_dir", "mlflow")  # options of each command, not of a run
_OF_CODE = ("framework",)  # in which the user's own code trains, if it imports two
_WORKERS = "hw.workers"  # may differ on as many nodes: a step has the same samples with any number of workers
_ALIKE = ("task", "scale", "framework", "precision", "runs", "submitter", "division", "checkpoints", "token", "witness")
_UNSTORED = tuple(f"hw.{name}" for name, field in System.model_fields.items() if field.exclude)  # for forecasts alone


class _Stored(Values):
    """What a plan is made of again; older evidence lacks what has a default here."""

    task: str
    scale: str
    framework: str
    precision: str
    submitter: str
    result_id: str
    runs: int
    seeds: Annotated[tuple[int, ...], Field(min_length=1)]
    system: dict[str, Any]
    benchmark: dict[str, Any]
    division: str = DIVISIONS[0]
    status: str = STATUSES["research"]
    checkpoints: Checkpointing = "last"
    token: str | None = None
    witness: str | None = None


def stored(out: Path, option: str = "resume=") -> dict[str, Any]:
    """The resolved configuration of the first run in `out`, which `option` names.

    Raises UserError if there is none, and for a value of another kind than a run writes.
    """
    fields = _Stored.model_fields
    for path in configs(out):
        try:
            if path.exists():
                values, _ = yaml_mapping(read_safely(path))
                if values.keys() >= {name for name, field in fields.items() if field.is_required()}:
                    told = {name: value for name, value in values.items() if name in fields}
                    return {**values, **config.checked(_Stored, told, f"{option}{out}: {path.name}").model_dump()}
        except (OSError, ValueError) as error:
            raise UserError(f"{option}{out}: {path.name} cannot be read ({error})") from error
    raise UserError(f"{option}{out} holds no run: give the out= folder of a run")


def gone_on_by(out: Path, given: Mapping[str, Any]) -> str:
    """The options of a command that resumes the run in `out`: resume=, and those `given` that its evidence lacks."""
    names = (
        *_OF_COMMAND,
        *(_OF_CODE if given.get("implementation") is not None else ()),
        *([_WORKERS] if "resume" in given else []),
    )
    again = {"resume": out, **{name: given[name] for name in names if given.get(name) is not None}}
    if "implementation" in again:
        again["implementation"] = Path(again["implementation"]).absolute()
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in again.items()}
    return " ".join(f"{name}={shlex.quote(text)}" for name, text in texts.items())


def from_evidence(out: Path, given: Mapping[str, Any], own: OwnImplementation | None, option: str = "resume=") -> Plan:
    """The plan to resume, from what an interrupted command left in `out`.

    `given` holds the options on the command line, `own` the implementation that they name; `option` is the one that
    names `out`, empty where it stands alone. Raises UserError for an option that contradicts or would change the stored
    run, for a single run of several, which cannot be resumed alone, and for a run of a reference that had other
    hyperparameters. Only the number of workers on each node may change, once all runs have begun.
    """
    values, named = stored(out, option), f"{option}{out}"
    categories = {status: category for category, status in STATUSES.items()}
    if option == "resume=" and values["runs"] != 1 and (out / evidence.CONFIG).exists():
        raise UserError(
            f"{named} is one of {values['runs']} runs: give the folder that holds them, resume={out.absolute().parent}"
        )
    contestant = _contestant(out, named, values.get("implementation"), own)
    workers = given.get(_WORKERS, values["system"].get("workers"))
    benchmark = config.checked(Benchmark, values["benchmark"], f"{out}: benchmark")
    here = config.benchmark(values["task"], values["scale"]).hyperparameters
    if contestant is None and (others := sorted(here.keys() ^ benchmark.hyperparameters.keys())):
        raise UserError(
            f"{named} was begun by another reference of {benchmark.task}, which differs in the hyperparameters "
            f"{', '.join(others)}: use the suite of the git revision that its system.json names"
        )
    system = config.checked(System, {**values["system"], "workers": workers}, f"{out}: system")
    known = {
        **{name: values[name] for name in _ALIKE},
        "category": categories[one_of(f"status of {named}", values["status"], categories)],
        "subset": benchmark.dataset.subset,
        "hw": system.name,
        "seed": values["seeds"][0],
    }
    for name, value in known.items():
        if given.get(name) is not None and str(given[name]) not in (str(value), "auto"):
            raise UserError(f"{name}={given[name]} contradicts {named}, which is a run of {name}={value}")
    for name, value in given.items():
        same = Path(str(value)) == out if name == "out" else _repeats(value, _stored_at(values, name.split(".")))
        if name not in (*known, "resume", "dry_run", *_OF_COMMAND, *_UNSTORED, _WORKERS) and not same:
            raise UserError(f"{name}={given[name]} comes too late: {named} goes on as it was begun. Leave it out.")
    made = Plan(
        benchmark=benchmark,
        system=system,
        framework=config.framework(values["framework"]),
        precision=values["precision"],
        seeds=values["seeds"],
        token=values["token"],
        result_id=values["result_id"],
        submitter=values["submitter"],
        division=values["division"],
        status=values["status"],
        witness=values["witness"],
        out=out,
        checkpoints=values["checkpoints"],
        contestant=contestant,
    )
    if workers != values["system"].get("workers") and evidence.to_begin(made):
        raise UserError(
            f"{_WORKERS}={workers} comes too late: a run of {named} has yet to begin, and all have one configuration. "
            "Leave it out."
        )
    return made


def _contestant(out: Path, named: str, stored: Any, own: OwnImplementation | None) -> Contestant | None:
    """The implementation that the run was begun with. Raises UserError unless `own` is the same, byte for byte."""
    if stored is None:
        if own:
            raise UserError(f"implementation={own.path} contradicts {named}, which is a run of the reference")
        return None
    told = config.checked(Contestant, stored, f"{out}: implementation")
    if own is None:
        raise UserError(f"{named} is a run of {told.name!r}: name its code again, implementation=PATH")
    if others := differing(told.files, own.told.files):
        raise UserError(
            f"{named} began with another {others[0]} than implementation={own.path} has: go on with that code, a "
            f"copy of which lies in {CODE}/ of the run, or begin a new run"
        )
    return told


def _stored_at(values: Mapping[str, Any], path: Sequence[str]) -> Any:
    """The stored value of an option like `hw.price_per_hour` or `hyperparameters.dropout`, None if there is none."""
    return value_at(values["system"], *path[1:]) if path[0] == "hw" else value_at(values["benchmark"], *path)


def _repeats(value: Any, stored: Any) -> bool:
    """Whether an option repeats what is stored; of a mapping only the names that it gives are compared."""
    if isinstance(value, dict) and isinstance(stored, dict):
        return all(name in stored and _repeats(each, stored[name]) for name, each in value.items())
    return bool(value == stored)
