"""What the suite asks of a task: its data as arrays, and the score of predictions."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np

from suite.store import packages


class Task(Protocol):
    """A module `tasks.<task>`."""

    def prepare(self, scale: str, files: Any) -> dict[str, np.ndarray]:
        """All arrays of a benchmark, made from the dataset's verified files in the folder `files`.

        Names that start with `answer_` are given to `score` only.
        """
        ...

    def score(self, predictions: Sequence[Any], data: Mapping[str, np.ndarray]) -> dict[str, float]:
        """The metrics of `predictions`, the benchmark's own among them. Raises BadPrediction."""
        ...


def load_task(task: str) -> Task:
    """The definition of `task`. Raises UserError that names the packages it needs and that are missing."""
    packages.require(task)
    definition: Task = cast(Any, importlib.import_module(f"tasks.{task}"))
    return definition
