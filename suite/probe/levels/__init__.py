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
    """A module of this folder. `measurement(subject)` builds the workload and makes ready to measure it."""

    measurement: Callable[[Subject], Measurement]


def names() -> dict[str, str]:
    """What each level shows, by its name."""
    found = {each.name: importlib.import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__)}
    return {name: str(module.__doc__).partition("\n")[0] for name, module in found.items()}


def load(name: str) -> Level:
    """The level of this name. Raises UserError for an unknown one."""
    if name not in (known := {each.name for each in pkgutil.iter_modules(__path__)}):
        raise unknown("level", name, known)
    module: Any = importlib.import_module(f"{__name__}.{name}")
    return cast(Level, module)
