"""The options of a run, or with `-m` of several: parsed and composed by Hydra from the command line and conf/."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, cast

import hydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from suite import config
from suite.config import folder
from suite.config.models import Benchmark, System
from suite.errors import UserError, one_of, unknown, without_value
from suite.harness.implementation import frameworks
from suite.run.resuming import stored

MULTIRUN = ("-m", "--multirun")
GROUPS = ("task", "framework", "hw")  # each names a file in the folder of conf/ of the same name
_REFERENCE = re.compile(r"\$\{([\w.]+)\}")  # within a text; a group stands for its name, not the file's content
VERBATIM = ("out", "data_dir", "implementation", "resume", "submitter", "token", "witness")
PATHS = ("out", "implementation", "resume")
ALWAYS = ("submitter", "division", "category", "checkpoints")  # texts that no run is without
TEXTS = (*VERBATIM, "scale", *ALWAYS[1:])
OF_SYSTEM = tuple(name for name in System.model_fields if name != "name")
OF_BENCHMARK = tuple(
    name
    for name, field in Benchmark.model_fields.items()
    if not field.exclude and name not in ("task", "scale", "runs")
)


@dataclass(frozen=True)
class Options:
    """The options of one run.

    `system` holds the values of the system that `hw` names; `benchmark` those that are set in the chosen benchmark, by
    their paths, such as `hyperparameters.dropout`; `given` everything on the command line.
    """

    task: str
    framework: str
    hw: str
    system: dict[str, Any]
    benchmark: Mapping[str, Any]
    given: Mapping[str, Any]
    scale: str | None
    subset: float | None
    seed: int | None
    token: str | None
    witness: str | None
    runs: int
    out: str | None
    data_dir: str | None
    implementation: str | None
    resume: str | None
    dry_run: bool
    checkpoints: str
    mlflow: bool
    submitter: str
    division: str
    category: str


def parse(argv: list[str]) -> list[Options]:
    """The options of each run that the command line asks for, one unless it has `-m`.

    Raises UserError for a word that is no option, for an unknown name, and for a value that cannot be read.
    """
    words = [word for word in argv if word not in MULTIRUN]
    _check(words)
    several = len(words) < len(argv)
    texts = dict(word.split("=", 1) for word in words if _verbatim(word) and not (several and _swept(word)))
    others = [word for word in words if word.partition("=")[0] not in texts]
    lines: Iterable[Sequence[str]] = product(*map(_values, others)) if several else [others]
    return [_composed(line, texts) for line in lines]


def combinations(words: Sequence[str]) -> int:
    """How many commands `-m` makes of `words`; a verbatim value counts as one, whatever it holds.

    Raises UserError for a word that is no option.
    """
    _check(words)
    return math.prod(len(_values(word)) for word in words if not _verbatim(word))


def _check(words: Sequence[str]) -> None:
    """Raise UserError for a word that is no option, and for one that is given twice."""
    allowed = {*folder.table(folder.CONF / "config.yaml"), *GROUPS, *OF_BENCHMARK} - {"defaults"}
    inner = _hyperparameters(words)
    for word in words:
        _refuse(word, allowed, inner)
    names = Counter(word.partition("=")[0].lstrip("+") for word in words)
    if twice := [name for name, count in names.items() if count > 1]:
        raise UserError(f"{twice[0]}= is given twice")


def _hyperparameters(words: Iterable[str]) -> set[str]:
    """The names of the hyperparameters of the benchmark that `words` choose: of any scale where they choose none."""
    chosen = dict(word.split("=", 1) for word in words if "=" in word)
    if (task := chosen.get("task")) not in config.names("task"):
        return set()
    fitting = (each for each in config.benchmarks(task) if chosen.get("scale", each.scale) == each.scale)
    return {name for each in fitting for name in each.hyperparameters}


def _of_any_benchmark() -> set[str]:
    """The names of all hyperparameters there are."""
    return {name for benchmark in config.benchmarks() for name in benchmark.hyperparameters}


def _means(short: str, name: str) -> bool:
    """Whether `short` stands for a hyperparameter: by words of its name, such as `batch_size`, or by their initials."""
    initials = "".join(word[:1] for word in name.split("_"))
    return f"_{short}_" in f"_{name}_" or (len(short) > 1 and short in initials)


def _refuse(word: str, allowed: Iterable[str], hyperparameters: Collection[str]) -> None:
    """Raise UserError for a word that is not of the form option=value, or whose option is not there."""
    name, equals, value = word.partition("=")
    bare = name.lstrip("+")
    first, *path = bare.split(".")
    if word.startswith("-"):
        if first.lstrip("-") in allowed:
            raise UserError(f"{word!r}: options have no dashes; write {name.lstrip('-')}={value or 'VALUE'}")
        raise unknown("option", name, (*MULTIRUN, "-h", "--help"))
    if not equals:
        raise UserError(f"{word!r} is not of the form option=value; for example seed=1")
    if first == "task" and path:  # as the file of the task has it
        scale, *own = path[path.index("scales") + 1 :] if "scales" in path[:-1] else [""]
        short = f"{'.'.join(own)}={value} with scale={scale}" if own else "hyperparameters.NAME=VALUE"
        raise UserError(f"{name!r}: a value of the chosen benchmark has a shorter name; write {short}")
    if first not in allowed and (meant := sorted(each for each in hyperparameters if _means(bare, each))):
        raise UserError(f"unknown option {bare!r}: did you mean hyperparameters.{' or hyperparameters.'.join(meant)}?")
    if first not in allowed and hyperparameters and first in _of_any_benchmark():
        raise unknown("hyperparameter of the chosen benchmark", first, hyperparameters)
    if first == "hw" and path and path[0] not in OF_SYSTEM:
        raise unknown("value of hw", path[0], OF_SYSTEM)
    if first not in allowed or (path and first not in ("hw", *OF_BENCHMARK)):
        raise unknown("option", bare if first in allowed else first, allowed)


def _verbatim(word: str) -> bool:
    """Whether the value is a path or a name that is taken character by character: not null, and not in quotes."""
    name, _, value = word.partition("=")
    quoted = len(value) > 1 and value[0] in "'\"" and value[0] == value[-1]
    return name in VERBATIM and value not in ("", "null") and not quoted


def _swept(word: str) -> bool:
    """Whether the value, in a sweep, stands for several or refers to other options."""
    return re.search(r"[,($]", word.partition("=")[2]) is not None


def _override(word: str) -> Override:
    try:
        return OverridesParser.create().parse_override(word)
    except (HydraException, ValueError) as error:  # the latter for a number of thousands of digits
        raise UserError(f"{word!r} cannot be read ({_first_line(error)}); quote a text: NAME=\"'TEXT'\"") from error


def _values(word: str) -> list[str]:
    """The word once for each value that a sweep gives it."""
    override = _override(word)
    if not override.is_sweep_override():
        return [word]
    try:
        return [f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()]
    except HydraException as error:
        raise UserError(f"{word!r} cannot be run one value after the other ({_first_line(error)})") from error


def _composed(words: Sequence[str], texts: Mapping[str, str]) -> Options:
    """The options of one run: Hydra composes `words`; `texts` are taken as they stand."""
    given: dict[str, Any] = {}
    for override in map(_override, words):
        if override.is_sweep_override():
            raise UserError(f"{override.input_line!r} gives several values: add -m to run one after the other")
        given[override.key_or_group] = override.value()
    given |= texts
    if empty := [name for name, value in given.items() if value == ""]:
        raise without_value(empty[0])
    leaves = Counter(leaf for name, value in given.items() for leaf in _leaves(name, value))
    if twice := [leaf for leaf, count in leaves.items() if count > 1]:
        raise UserError(f"{twice[0]}= is given twice")
    if given.get("resume") and "task" not in given:
        task = stored(Path(str(given["resume"])).expanduser())["task"]
        given["task"] = task
        words = [*words, f"task={task}"]
    if not given.get("task"):
        raise config.which_task()
    for group in GROUPS:
        if group in given:
            name = str(given[group])
            if group == "framework" and not given.get("implementation") and (known := frameworks(str(given["task"]))):
                one_of(f"framework for {given['task']}", name, known)
            config.load(group, name)
            words = [word if word.lstrip("+").partition("=")[0] != group else f"{group}='{name}'" for word in words]
    benchmark = {name: value for name, value in given.items() if name.partition(".")[0] in OF_BENCHMARK}
    others = [word for word in words if word.lstrip("+").partition("=")[0] not in benchmark]
    values = {**_compose(others, benchmark), **texts}
    for name in ("dry_run", "mlflow"):
        if not isinstance(values[name], bool):
            raise UserError(f"{name}={values[name]} is neither true nor false")
    share = values["subset"]
    if share is not None and type(share) not in (int, float):
        raise UserError(f"subset={share} is no number: it is the share of the training data that a pilot takes")
    for name in ALWAYS:
        if values[name] is None:
            raise UserError(f"{name}=null: give a value, or leave it out")
    for name in TEXTS:
        values[name] = None if values[name] is None else str(values[name])
    for name in PATHS:
        values[name] = values[name] and os.path.expanduser(values[name])
    given |= {name: values[name] for name in VERBATIM if name in given}  # in a sweep out= may refer to other options
    return Options(**values, benchmark=benchmark, given=given)


def _leaves(path: str, value: Any) -> Iterator[str]:
    """The paths of all values that an option gives: of a mapping those in it."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(f"{path}.{name}", each)
    else:
        yield path


def _compose(words: Sequence[str], benchmark: Mapping[str, Any]) -> dict[str, Any]:
    """What Hydra composes: the values of conf/config.yaml, the names of the groups' files, and the system's values.

    A text such as that of out= may also refer to the values set in the `benchmark`.
    """
    # What a system's file leaves out may be set too.
    overrides = [f"++{word.lstrip('+')}" if word.lstrip("+").startswith("hw.") else word for word in words]
    try:
        with hydra.initialize_config_dir(str(folder.CONF), version_base="1.3"):
            composed = hydra.compose("config", overrides, return_hydra_config=True)
        chosen = {group: str(composed.hydra.runtime.choices[group]) for group in GROUPS}
        plain = OmegaConf.masked_copy(composed, [str(name) for name in composed if name != "hydra"])
        for name, text in cast(dict[str, Any], OmegaConf.to_container(plain)).items():
            if name in VERBATIM and isinstance(text, str):
                plain[name] = _REFERENCE.sub(lambda found: str({**benchmark, **chosen}.get(found[1], found[0])), text)
        values = cast(dict[str, Any], OmegaConf.to_container(plain, resolve=True))
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(f"{_first_line(error)} (the values of conf/ are those that can be set)") from error
    return {**values, **chosen, "system": values["hw"]}


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
