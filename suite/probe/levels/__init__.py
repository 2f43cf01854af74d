"""The levels, one module each; the first line of its docstring says in --help what it shows."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, cast

from suite.errors import headline, one_of
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
    """A module of this folder. `measurement(subject)` builds the workload and prepares to measure it.

    It may define TAKES, the names of options that other levels refuse; DEFAULTS, the values of options that are not
    given; ALONE, if it has something to measure without a task or model; and WHOLE, if it follows a whole run.
    """

    measurement: Callable[[Subject], Measurement]


def names() -> dict[str, str]:
    """What each level shows, by its name."""
    return {name: headline(Path(__file__).with_name(f"{module}.py")) for name, module in _modules().items()}


def load(name: str) -> Level:
    """The level of this name. Raises UserError for an unknown one."""
    known = _modules()
    return cast(Level, importlib.import_module(f"{__name__}.{known[one_of('level', name, known)]}"))


def taking(option: str) -> list[str]:
    """The levels that take an option which others refuse."""
    return [name for name in _modules() if option in getattr(load(name), "TAKES", ())]


def first_steps_alone(name: str) -> bool:
    """Whether a level looks only at the first steps of a training, even if later ones differ."""
    return not getattr(load(name), "WHOLE", False)


def defaults(name: str) -> dict[str, str]:
    """The level's defaults of options that are not given."""
    return dict(getattr(load(name), "DEFAULTS", {}))


def alone(name: str) -> bool:
    """Whether a level has something to measure when no task or model is given."""
    return getattr(load(name), "ALONE", False)


def _modules() -> dict[str, str]:
    """The modules' names by those of their levels."""
    return {each.name.replace("_", "-"): each.name for each in pkgutil.iter_modules(__path__)}
