"""Parse the options of a forecast from the words of its command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from suite import config
from suite.config import folder
from suite.config.models import System
from suite.errors import UserError, positive, unknown, whole
from suite.forecast.measurement import Measurement
from suite.measure.machine import Machine
from suite.measure.systems import AUTO, resolve

ALL = "all"
OPTIONS = ("task", "scale", "hw", "framework", "batch", "from", "deadline", "budget", "results", "data_dir")
OF_SYSTEM = tuple(f"hw.{name}" for name in System.model_fields if name not in ("name", "title", "price"))
UNITS = {"": 1, "s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class Options:
    """What a command asks for. `deadline`, in seconds, and `budget` are the most that a run may take."""

    task: str
    scale: str
    framework: str
    systems: tuple[System, ...]
    batch: int | None
    probe: str | None
    deadline: float | None
    budget: float | None
    results: str | None
    data_dir: str | None


def parse(given: Mapping[str, str], found: Machine, kept: Measurement | None) -> Options:
    """Parse the options `given` by name; `kept` is what lies at from=, and gives the system if hw= does not.

    Raises UserError that says what is allowed.
    """
    if "task" not in given:
        raise config.which_task()
    task, hw = given["task"], given.get("hw", kept.found.system if kept else AUTO)
    node = kept.node(found) if kept and "hw" not in given else found
    scales = config.scales(task)
    changes = {name.partition(".")[2]: _value(name, text) for name, text in given.items() if name in OF_SYSTEM}
    names = [each for each in config.names("hw") if each != AUTO] if hw == ALL else [hw]
    systems = tuple(resolve(config.system(name, {**config.load("hw", name), **changes}), node) for name in names)
    scale = given.get("scale", systems[0].default_scale if hw != ALL else scales[-1])
    framework = given.get("framework", "torch")
    config.load("framework", framework)
    return Options(
        task=task,
        scale=scale,
        framework=framework,
        systems=systems,
        batch=whole("batch", given["batch"]) if "batch" in given else None,
        probe=given.get("from"),
        deadline=duration("deadline", given["deadline"]) if "deadline" in given else None,
        budget=positive("budget", given["budget"]) if "budget" in given else None,
        results=given.get("results"),
        data_dir=given.get("data_dir"),
    )


def duration(name: str, text: str) -> float:
    """Seconds of `90`, `90s`, `30min`, `2h` or `1.5d`. Raises UserError for another text."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower(), re.ASCII)
    if not match or match[2] not in UNITS:
        raise UserError(f"{name}={text} is no duration: write 90s, 30min, 2h or 1.5d")
    return positive(name, match[1]) * UNITS[match[2]]


def _value(name: str, text: str) -> Any:
    try:
        return folder.value(text)
    except yaml.YAMLError:
        raise UserError(f"{name}={text} cannot be read") from None


def allowed(word: str) -> None:
    """Raise UserError for an option of a system that it does not have."""
    name = word.partition("=")[0]
    if name.startswith("hw.") and name not in OF_SYSTEM:
        raise unknown("value of hw", name[3:], [each[3:] for each in OF_SYSTEM])
