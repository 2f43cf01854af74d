"""The levels: a module each, whose docstring begins with what it shows."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, Protocol, cast

from suite.errors import unknown
from suite.probe.record import Cell
from suite.probe.subject import Subject


class Measurement(Protocol):
    """A level's look at one workload, which it has built and warmed up."""

    def repeat(self) -> None:
        """Measure once more."""
        ...

    def found(self) -> Cell:
        """What the repeats showed."""
        ...


class Level(Protocol):
    """A module of this folder. `measurement(subject)` builds the workload and makes ready to measure it.

    It may have TAKES, the names of options that other levels refuse, DEFAULTS, what options are where not given, and
    ALONE, where it has something to look at without a task or model, and WHOLE, where it goes along a whole run.
    """

    measurement: Callable[[Subject], Measurement]


def names() -> dict[str, str]:
    """What each level shows, by its name."""
    found = {name: importlib.import_module(module) for name, module in _modules().items()}
    return {name: str(module.__doc__).partition("\n")[0] for name, module in found.items()}


def load(name: str) -> Level:
    """The level of this name. Raises UserError for an unknown one."""
    if name not in (known := _modules()):
        raise unknown("level", name, known)
    module: Any = importlib.import_module(known[name])
    return cast(Level, module)


def taking(option: str) -> list[str]:
    """The levels that take an option which others refuse."""
    return [name for name in _modules() if option in getattr(load(name), "TAKES", ())]


def first_steps_alone(name: str) -> bool:
    """Whether a level looks at the first steps of a training, however later ones differ."""
    return not getattr(load(name), "WHOLE", False)


def defaults(name: str) -> dict[str, str]:
    """What options are at this level where they are not given."""
    return dict(getattr(load(name), "DEFAULTS", {}))


def alone(name: str) -> bool:
    """Whether a level looks at something of its own where no task or model is given."""
    return getattr(load(name), "ALONE", False)


def _modules() -> dict[str, str]:
    return {each.name.replace("_", "-"): f"{__name__}.{each.name}" for each in pkgutil.iter_modules(__path__)}
