"""The options of a probe, and the cells of the sweep that they ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, get_args

from suite import config
from suite.config import formats
from suite.config.models import System
from suite.errors import UserError, one_of, positive, whole
from suite.harness.contestant import OwnImplementation, read
from suite.measure import systems
from suite.measure.machine import Machine
from suite.probe import levels, training
from suite.probe.kernels import tags
from suite.probe.record import MODES, MOST_CELLS, Conditions, Data, Probe
from suite.probe.subject import Subject

SPECIAL = ("samples", "from", "trace", "kernels", "peak")  # options of some levels only
FIELDS = {"from": "state"}  # the names of conditions that are not named as their options
SWEPT = tuple({"state": "from"}.get(name, name) for name in Conditions.model_fields if name != "implementation")
SINGLE = ("level", "hw", "repeats", "seconds", "out", "trace", "implementation")
TRACE = "trace.json"


@dataclass(frozen=True)
class Options:
    """What a command asks for."""

    level: str
    subjects: list[Subject]
    repeats: int


def parse(given: Mapping[str, str], data_dir: str | None, found: Machine) -> Options:
    """Parse the options `given`, by name. Raises UserError that says what is allowed."""
    if "level" not in given:
        raise UserError(f"which level? Give level= one of: {', '.join(levels.names())} (--help explains them).")
    levels.load(given["level"])
    for name in SPECIAL:
        if name in given and given["level"] not in (taking := levels.taking(name)):
            use = f"level={given['level']} has no use for it; level={' or '.join(taking)} has"
            raise UserError(f"{name}={given[name]}: {use}")
    if "from" in given and "samples" in given:
        raise UserError("from= and samples= exclude each other: a kept state was trained before")
    if given.keys() >= {"task", "model"} or not (given.keys() & {"task", "model"} or levels.alone(given["level"])):
        tasks = ", ".join(config.names("task"))
        raise UserError(f"what to probe? Give task= (one of {tasks}) or model= (a model's name), one of the two.")
    if "model" in given and "scale" in given:
        raise UserError("scale= is for task=; a model has size= and batch=")
    if "implementation" in given and "task" not in given:
        raise UserError(f"implementation={given['implementation']}: code of one's own is of a task: give task= as well")
    system = systems.system_here(given.get("hw", systems.AUTO), found)
    seconds = positive("seconds", given.get("seconds", "1"), "seconds")
    lists = {name: _values(name, given[name]) for name in SWEPT if name in given}
    for name, text in levels.defaults(given["level"]).items():
        lists.setdefault(name, _values(name, text))
    own = _own(given)
    if own:
        lists |= {"framework": [own.framework.name], "implementation": [own.told.name]}
    given_by = None if lists.keys() & {"precision", "from"} else system.name
    subjects = [
        Subject(conditions, system, seconds, data_dir, own, precision_of=given_by)
        for conditions in _conditions(lists, system, found)
    ]
    if len(subjects) > MOST_CELLS:
        raise UserError(f"{len(subjects)} cells are asked for; {MOST_CELLS} are the most")
    subjects = _traced(given["level"], subjects, given)
    return Options(given["level"], subjects, whole("repeats", given.get("repeats", "5")))


def again(kept: Probe, given: Mapping[str, str], data_dir: str | None, found: Machine) -> Options:
    """The options that repeat a kept probe on this machine.

    Code other than the suite's has to be named in `given`: a probe may be a stranger's, so it names no path.
    """
    system = systems.system_here(kept.system, found)
    levels.load(kept.level)
    own = _own(given)
    wanted = {(cell.conditions.implementation, cell.conditions.framework) for cell in kept.cells}
    if own and wanted != {(own.told.name, own.framework.name)}:
        looked = " and ".join(sorted(f"{name or 'the reference'} in {framework}" for name, framework in wanted))
        raise UserError(f"implementation={own.path} is {own.told.name} in {own.framework.name}; measured was {looked}")
    if not own and any(name for name, _ in wanted):
        raise UserError(
            f"what was measured is {kept.cells[0].conditions.name}: name its code again, implementation=PATH"
        )
    subjects = [Subject(cell.conditions, system, kept.seconds, data_dir, own) for cell in kept.cells]
    return Options(kept.level, _traced(kept.level, subjects, given), kept.repeats)


def _traced(level: str, subjects: list[Subject], given: Mapping[str, str]) -> list[Subject]:
    """The subjects, each with the file to write its trace to, if the level writes one."""
    if level not in levels.taking("trace"):
        return subjects
    if "trace" not in given and "out" not in given:
        raise UserError(f"level={level} writes a file: give trace=FILE, or out=FOLDER for {TRACE} in it")
    path = Path(given["trace"]) if "trace" in given else Path(given["out"]) / TRACE
    _refuse_undecodable("trace", str(path))
    if path.suffix == ".gz":
        raise UserError(f"trace={path}: the file is plain JSON: name it trace={path.with_suffix('')}")
    several = len(subjects) > 1
    names = [path.with_stem(f"{path.stem}-{number}") if several else path for number in range(1, len(subjects) + 1)]
    return [replace(subject, trace=name) for subject, name in zip(subjects, names, strict=True)]


def _own(given: Mapping[str, str]) -> OwnImplementation | None:
    path = given.get("implementation")
    return None if path is None else read(Path(path), given.get("framework"))


def _values(name: str, text: str) -> list[str]:
    _refuse_undecodable(name, text)
    values = [each.strip() for each in text.split(",")]
    if not all(values):
        raise UserError(f"{name}={text} has an empty value; write {name}=A,B")
    return list(dict.fromkeys(values))


def _refuse_undecodable(name: str, text: str) -> None:
    """Raise UserError for a path that is not UTF-8: no record can hold it, and no framework writes there."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{name}={text} is not UTF-8: name it in plain letters") from error


def _conditions(lists: Mapping[str, list[str]], system: System, found: Machine) -> Iterator[Conditions]:
    """Yield the conditions of each combination of the lists' values."""
    for task in lists.get("task", ()):
        config.load("task", task)
    for framework in lists.get("framework", ()):
        config.load("framework", framework)
    for values in product(*lists.values()):
        given: dict[str, Any] = dict(zip(lists, values, strict=True))
        one_of("mode", given.setdefault("mode", "train"), MODES)
        given.setdefault("framework", "torch")
        if "kernels" in given:
            tags.known(given["kernels"])
        for name in ("batch", "size", "samples"):
            if name in given:
                given[name] = whole(name, given[name])
        benchmark = None
        if "task" in given:
            benchmark = config.benchmark(given["task"], given.setdefault("scale", system.default_scale))
        trained = "from" in given and training.precision(Path(given["from"]))
        precision = given.setdefault("precision", trained or systems.precision_of(system, found, benchmark))
        formats.known(precision)
        if "data" in given:
            one_of("data", given["data"], get_args(Data))
        yield Conditions(**{FIELDS.get(name, name): value for name, value in given.items()})
