"""The options of `python -m suite.bricks make|measure|compose`, and the sources that `make` takes bricks from."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from suite import config
from suite.bricks import frameworks
from suite.bricks.arguments import MOST_CALLS
from suite.config import formats
from suite.config.models import System
from suite.errors import UserError, one_of, truth, whole
from suite.harness import contestant, loading
from suite.harness.imported import framework_of, imports
from suite.measure import systems
from suite.measure.machine import Machine
from suite.probe.record import MODES, Conditions
from suite.probe.subject import Subject, check_model_precision
from suite.store import code
from suite.store.disk import UnsafeFile, read_safely, reason

MAKE = (
    "models", "task", "scale", "implementation", "framework", "mode", "batch", "size", "precision", "granularity",
    "hw", "out", "private", "decoys", "key", "data_dir",
)  # fmt: skip
MEASURE = ("out", "hw", "repeats")
COMPOSE = ("model", "key")
LIBRARIES = {"torchvision": "torch", "keras": "tensorflow"}
MOST_DECOYS = 100_000
LIST_BYTES = 1 << 20


@dataclass(frozen=True)
class Source:
    """Something to make bricks of: a workload, and the user's own network if it replaces the workload's."""

    subject: Subject
    network: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Making:
    """What `make` is asked for."""

    sources: Sequence[Source]
    granularity: int
    out: Path
    key: Path | None
    decoys: int


def making(given: Mapping[str, str], found: Machine) -> Making:
    """Parse the options of `make`. Raises UserError that says what is allowed."""
    if "out" not in given:
        raise UserError("where to? Give out=FILE, for example out=bricks.json")
    private = truth("private", given.get("private", "false"))
    if not private and (others := given.keys() & {"decoys", "key"}):
        raise UserError(f"{'= and '.join(sorted(others))}= is for private=true")
    out, key = Path(given["out"]), Path(given["key"]) if "key" in given else None
    if not out.name:
        raise UserError(f"out={given['out']} is no name of a file, for example out=bricks.json")
    if private and key is None:
        key = out.with_suffix(".key.json")
    if key is not None and key.resolve() == out.resolve():
        raise UserError(f"key={key} is the file of out=, which is to be given away")
    return Making(
        sources=_sources(given, found),
        granularity=whole("granularity", given.get("granularity", "1"), MOST_CALLS),
        out=out,
        key=key,
        decoys=0 if given.get("decoys", "0") == "0" else whole("decoys", given["decoys"], MOST_DECOYS),
    )


def _sources(given: Mapping[str, str], found: Machine) -> list[Source]:
    if ("models" in given) == ("task" in given):
        raise UserError(
            f"bricks of what? Give models= (names of models, torchvision, keras, or a file) or task= (one of "
            f"{', '.join(config.names('task'))}), one of the two."
        )
    if "models" in given and (others := given.keys() & {"scale", "implementation", "hw"}):
        raise UserError(f"{'= and '.join(sorted(others))}= is for task=")
    mode = given.get("mode", "infer")
    one_of("mode", mode, MODES)
    values: dict[str, Any] = {name: whole(name, given[name]) for name in ("batch", "size") if name in given}
    values["mode"] = mode
    here = systems.resolve(config.system(systems.CPU), found)  # shapes are the same everywhere
    if "task" in given:
        step = _of_task(given, values, here, found)
        if mode == "infer":
            return [step]
        return [step, replace(step, subject=step.subject.changed(mode="infer", batch=None))]
    values = {"batch": 1, "precision": formats.known(given.get("precision", "fp32")), **values}
    check_model_precision(values["precision"])
    text = given["models"]
    if text.endswith(".py"):
        return [_of_file(text, given, values, here)]
    if text in LIBRARIES:
        framework = LIBRARIES[text]
        if given.get("framework", framework) != framework:
            raise UserError(f"models={text} are of {framework}: leave out framework={given['framework']}")
        names = frameworks.load(framework).listed()
    else:
        framework = given.get("framework", "torch")
        names = _names(text)
        frameworks.load(framework)
    return [
        Source(Subject(Conditions(model=name, framework=framework, **values), here, 1.0))
        for name in dict.fromkeys(names)
    ]


def _of_task(given: Mapping[str, str], values: Mapping[str, Any], here: System, found: Machine) -> Source:
    """The source of a task, in the precision of a run on hw=, which need not be this machine."""
    config.load("task", given["task"])
    there = systems.resolve(config.system(given.get("hw", systems.AUTO)), found)
    scale = given.get("scale", here.default_scale)
    own = contestant.read(Path(given["implementation"]), given.get("framework")) if "implementation" in given else None
    framework = own.framework.name if own else given.get("framework", "torch")
    frameworks.load(framework)
    own_precision = systems.precision_of(there, found, config.benchmark(given["task"], scale))
    conditions = Conditions(
        task=given["task"],
        scale=scale,
        implementation=own.told.name if own else None,
        framework=framework,
        precision=formats.known(given.get("precision", own_precision)),
        **values,
    )
    given_by = None if "precision" in given else there.name
    return Source(Subject(conditions, here, 1.0, given.get("data_dir"), own, precision_of=given_by))


def _of_file(text: str, given: Mapping[str, str], values: Mapping[str, Any], here: System) -> Source:
    """The source of the user's own model: a file, trusted as such, that holds build() without arguments."""
    path, where = Path(text).resolve(), f"models={text}"
    files = code.read(path)
    try:
        found = imports({path.name: ast.parse(files[path.name])})
    except SyntaxError as error:
        raise UserError(f"{where}: line {error.lineno}: {error.msg}") from None
    if "keras" in found:
        found.setdefault("tensorflow", None)  # which is what it runs on here
    framework = framework_of(found, given.get("framework"), where).name
    frameworks.load(framework)

    def network() -> Any:
        try:
            module: Any = loading.load(path.stem, path.parent, files, path.name)
            made = module.build()
        except (Exception, SystemExit) as error:  # the author's code may raise anything
            raise UserError(f"{where}: build() gave {type(error).__name__}: {error}") from error
        if not callable(made):
            raise UserError(f"{where}: build() gave {type(made).__name__}, and not a torch.nn.Module or keras.Model")
        return made

    return Source(Subject(Conditions(model=path.stem, framework=framework, **values), here, 1.0), network)


def _names(text: str) -> list[str]:
    """The names of models in `text`, or in the file that it names, one a line."""
    path = Path(text)
    if "," in text or not (path.is_file() or "/" in text or path.suffix == ".txt"):
        names = [each.strip() for each in text.split(",")]
        if not all(names):
            raise UserError(f"models={text} has an empty name; write models=A,B")
        return names
    try:
        lines = read_safely(path, LIST_BYTES).decode().splitlines()
    except (OSError, UnsafeFile, ValueError) as error:
        raise UserError(f"models={text} is no list of models: {reason(error)}") from error
    names = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not names:
        raise UserError(f"models={text} has no names of models, one a line")
    return names
