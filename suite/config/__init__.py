"""The values a run is made of, read from conf/ and checked: benchmarks, systems, frameworks.

`folder` reads the files, `models` says what they may hold, `plan` is what a command makes of them, `logkeys` are our
own keys of a log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from suite.config.folder import load, names
from suite.config.models import Benchmark, Formula, Framework, Price, Range, System, TaskFile
from suite.config.values import checked
from suite.errors import UserError, one_of

__all__ = [
    "benchmark",
    "benchmarks",
    "checked",
    "framework",
    "load",
    "names",
    "scales",
    "system",
    "task_file",
    "which_task",
]


def task_file(task: str) -> TaskFile:
    """The file `conf/task/<task>.yaml`. Raises UserError for one of the wrong form."""
    return checked(TaskFile, load("task", task), f"conf/task/{task}.yaml:")


def scales(task: str) -> list[str]:
    """The scales that a task offers, smallest first. Raises UserError for a file of the wrong form."""
    return list(task_file(task).scales)


def benchmarks(task: str | None = None) -> Iterator[Benchmark]:
    """The benchmarks of a task, or of all tasks, each task's smallest first."""
    for each in [task] if task else names("task"):
        yield from (benchmark(each, scale) for scale in scales(each))


def which_task() -> UserError:
    """The error for a command that names no task: says which there are."""
    return UserError(f"which task? Give task= one of: {', '.join(names('task'))} (--help explains).")


def benchmark(task: str, scale: str, values: dict[str, Any] | None = None) -> Benchmark:
    """The benchmark `task/scale` from `conf/task/`, or from `values` in place of that file's."""
    file = f"conf/task/{task}.yaml"
    offered = checked(TaskFile, values or load("task", task), f"{file}:").scales
    one_of(f"scale of {task}", scale, offered)
    found = checked(Benchmark, {"task": task, "scale": scale, **offered[scale]}, f"{file}: scales.{scale}")
    _check_free(found, f"{file}: scales.{scale}.free")
    return found


def _check_free(of: Benchmark, where: str) -> None:
    """Raise UserError unless all that is free are hyperparameters whose own values lie within their ranges, or from
    which their formulas can tell others.
    """
    for name, free in of.free.items():
        for each in (name, free.proportional_to) if isinstance(free, Formula) else (name,):
            one_of(f"hyperparameter in {where}", each, of.hyperparameters)
            value = of.hyperparameters[each]
            if not isinstance(value, int | float):
                raise UserError(f"{where}.{name}: {each} is {value!r:.60}, which is no number")
        if isinstance(free, Formula) and value <= 0:
            raise UserError(f"{where}.{name} follows {free.proportional_to}, which is {value}: make that more than 0")
        if isinstance(free, Range) and not free.low <= value <= free.high:
            raise UserError(
                f"{where}.{name} goes from {free.low:g} to {free.high:g}, without the benchmark's own {value!r}"
            )


def system(name: str, values: dict[str, Any] | None = None) -> System:
    """The system `conf/hw/<name>.yaml`, or the already overridden `values` of that file.

    Raises UserError for a field that is wrong, and for a file that gives a price but not whose it is.
    """
    file = load("hw", name)
    priced = [each for each in ("price_per_hour", "price_per_cpu_hour") if file.get(each) is not None]
    if priced and not file.get("price"):
        said = ", ".join(each for each in Price.model_fields if each != "currency")
        raise UserError(f"conf/hw/{name}.yaml gives {priced[0]} and not whose price it is: add price: with {said}")
    return checked(System, {"name": name, **(values or file)}, "hw" if values else f"conf/hw/{name}.yaml:")


def framework(name: str) -> Framework:
    """The framework `conf/framework/<name>.yaml`."""
    return checked(Framework, {"name": name, **load("framework", name)}, f"conf/framework/{name}.yaml:")
