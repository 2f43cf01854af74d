"""Reference convergence points: the samples that the reference implementations took to the target, by batch size.

They are data beside the benchmark, in conf/rcp/<task>/<scale>.yaml, made by `python -m suite.rcp`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from suite.config import folder
from suite.config.models import Benchmark, Formula
from suite.config.values import Values, checked

Curve = tuple[tuple[int, float], ...]  # (samples, quality) of each evaluation


class ReferenceRun(Values):
    """One run of a reference implementation, and where it comes from."""

    seed: int
    samples: int | None  # to the target; None: it did not reach it
    framework: str
    system: str
    machine: str
    date: str
    command: str
    git_revision: str | None
    run_id: str
    curve: Curve


class Point(Values):
    """The reference's runs at one batch size."""

    global_batch_size: int
    runs: tuple[ReferenceRun, ...]


class Reference(Values):
    """The points of a benchmark. `recipe` identifies what they hold for: another recipe converges differently."""

    benchmark: str
    recipe: str
    points: tuple[Point, ...]


def path(benchmark: Benchmark) -> Path:
    """The file of a benchmark's points."""
    return folder.CONF / "rcp" / benchmark.task / f"{benchmark.scale}.yaml"


def recipe(benchmark: Benchmark) -> str:
    """The sha256 of everything in a benchmark that decides how many samples it takes to the target.

    The range of a free hyperparameter is left out; the formulas of those that follow it are not.
    """
    deciding = {"metric", "target", "direction", "evaluation", "hyperparameters", "free", "dataset"}
    values = benchmark.model_dump(mode="json", include=deciding)
    values["free"] = {name: values["free"][name] for name, each in benchmark.free.items() if isinstance(each, Formula)}
    values["dataset"] = values["dataset"]["arrays"]
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def load(benchmark: Benchmark) -> Reference:
    """The points of a benchmark as it is now; no points if none are stored, or only those of another recipe."""
    none = Reference(benchmark=benchmark.name, recipe=recipe(benchmark), points=())
    if not path(benchmark).exists():
        return none
    stored = checked(Reference, folder.values(path(benchmark)), f"conf/rcp/{benchmark.name}.yaml:")
    return stored if stored.recipe == none.recipe else none
