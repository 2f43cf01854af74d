"""The modules that a task may have beside its own: what each is for, and how the suite loads it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from suite.errors import BrokenContract
from suite.store.task import Arrays, callable_like


class Altering(Protocol):
    """A module that a task may have, `tasks.<task>.preprocessing`: its evaluation, prepared in other ways."""

    def alterations(
        self, scale: str, files: Path, data: Mapping[str, np.ndarray]
    ) -> Mapping[str, Callable[[], Mapping[str, np.ndarray]]]:
        """By the names of other or wrong ways, functions that make `test_*` arrays anew, from `files` or from `data`.

        They may raise ImportError for a library that is not installed.
        """
        ...


class Sizing(Protocol):
    """A module that a task of sequences may have, `tasks.<task>.sizes`: the benchmark with sequences of one length."""

    def sized(self, size: int, data: Mapping[str, np.ndarray]) -> tuple[Mapping[str, np.ndarray], Mapping[str, Any]]:
        """The arrays and the hyperparameters, by their names, that make all sequences `size` long.

        What is learnt and scored need make no sense. Raises UserError for a size that cannot be.
        """
        ...


class Requesting(Protocol):
    """A module that a task may have whose test examples can be asked for one by one, `tasks.<task>.requests`."""

    def request(self, data: Mapping[str, np.ndarray], index: int) -> Mapping[str, np.ndarray]:
        """Of the `test_*` arrays those that hold examples, as they are where the test split is example `index` alone.

        Those of several requests, one after the other along the first axis, are a test split of these examples.
        """
        ...

    def numbered(self, prediction: Any, index: int) -> Any:
        """A prediction, of whatever number it was made, as it is for example `index` of a test split."""
        ...


class Shaping(Protocol):
    """A module that a task may have, `tasks.<task>.shapes`: what `build` is given where the data is not at hand."""

    def shaped(self, scale: str) -> Arrays | None:
        """The arrays that `build` reads, of the right shapes and of any values; None where that takes the data."""
        ...


class Sharding(Protocol):
    """A module that a task may have, `tasks.<task>.shards`: it makes the files that a dataset declares as `made`."""

    def make(self, scale: str, files: Path, path: str, into: Path) -> None:
        """Write to `into` the file that will lie at `path`, from the dataset's others in the folder `files`.

        It has the same bytes each time, and takes at most 256 MB of memory, for several are made at once. The first
        file of the dataset is there when the others are made.
        """
        ...


class Bringing(Protocol):
    """`tasks.<task>.shards` of a task whose data users have in several forms, so that `conf/` cannot name its files."""

    def bring(self, scale: str, files: Path) -> None:
        """Ensure, before any file is made, that what the files are made from is in the folder `files`.

        Raises UserError, which names all forms, if none is there.
        """
        ...


def load_alterations(task: str) -> Altering | None:
    """Load the module that alters the evaluation, None if there is none. Raises BrokenContract for missing parts."""
    return cast(Altering | None, _optional(f"tasks.{task}.preprocessing", Altering.alterations))


def load_sizing(task: str) -> Sizing | None:
    """Load the module that sets the task's lengths, None if there is none. Raises BrokenContract for missing parts."""
    return cast(Sizing | None, _optional(f"tasks.{task}.sizes", Sizing.sized))


def load_requests(task: str) -> Requesting | None:
    """Load the module that asks for single examples, None if there is none. Raises BrokenContract for missing parts."""
    return cast(Requesting | None, _optional(f"tasks.{task}.requests", Requesting.request, Requesting.numbered))


def load_shaping(task: str) -> Shaping | None:
    """Load the module that tells the data's shapes, None if there is none. Raises BrokenContract for missing parts."""
    return cast(Shaping | None, _optional(f"tasks.{task}.shapes", Shaping.shaped))


def load_sharding(task: str) -> Sharding:
    """Load the module that makes the task's files. Raises BrokenContract if there is none, or for missing parts."""
    module = _optional(f"tasks.{task}.shards", Sharding.make)
    if module is None:
        raise BrokenContract(f"there is no module tasks.{task}.shards, which makes the files of a dataset", Sharding)
    return cast(Sharding, module)


def load_bringing(task: str) -> Bringing | None:
    """Load the module that brings the task's data in one of its forms; None if `conf/` names the files."""
    sharding: Any = load_sharding(task)
    return cast(Bringing, sharding) if hasattr(sharding, "bring") else None


def _optional(name: str, *functions: Any) -> Any:
    """Load the module of this name, which must have the functions; None if there is none."""
    if find_spec(name) is None:
        return None
    module = importlib.import_module(name)
    for function in functions:
        callable_like(module, function)
    return module
