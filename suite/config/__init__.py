"""The values a run is made of, read from conf/ and checked: benchmarks, systems, frameworks.

`folder` reads the files, `models` says what they may hold, `plan` is what a command makes of them, `logkeys` are our
own keys of a log.
"""

from __future__ import annotations

from datetime import date
from reprlib import repr as brief  # of values of any depth and length
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from suite.config.folder import load, names
from suite.config.models import Benchmark, Formula, Framework, Price, Range, System, TaskFile
from suite.config.values import Values, records_at
from suite.errors import UserError, shown, unknown

__all__ = ["benchmark", "checked", "framework", "load", "names", "scales", "system"]

Record = TypeVar("Record", bound=Values)


def checked(record: type[Record], values: dict[str, Any], where: str) -> Record:
    """`values` as `record`. Raises UserError with one line that names `where` and the field at fault."""
    try:
        return record.model_validate(values)
    except ValidationError as error:
        found = error.errors()
        first = next((each for each in found if each["type"] == "extra_forbidden"), found[0])  # before what it misses
        raise _mistake(record, first, where) from None


def _mistake(record: type[Values], error: ErrorDetails, where: str) -> UserError:
    """One line for what pydantic found: the field, and what is wrong with it or the nearest name."""
    *path, last = error["loc"] or ("",)
    holders = records_at(record, path)
    unions = ("[", *(each.__name__ for each in holders))  # pydantic puts a union's member into the path
    place = ".".join([where, *(shown(str(part)) for part in path if not any(name in str(part) for name in unions))])
    if error["type"] == "extra_forbidden":
        return unknown(f"field of {place}", str(last), [name for each in holders for name in each.model_fields])
    name = f"{place}.{shown(str(last))}".rstrip(".").replace(":.", ": ")
    if error["type"] == "missing":
        words = next((field.description for each in holders if (field := each.model_fields.get(str(last)))), None)
        return UserError(f"{name} is missing: {words or 'it has no default'}")
    problem = error["msg"].removeprefix("Value error, ")
    if error["type"] == "string_type" and isinstance(error["input"], bool | int | float | date):
        problem += "; put it in quotes"
    return UserError(f"{name} is {brief(error['input'])}: {problem}.")


def scales(task: str) -> list[str]:
    """The scales that a task offers, smallest first. Raises UserError for a file of the wrong form."""
    return list(checked(TaskFile, load("task", task), f"conf/task/{task}.yaml:").scales)


def benchmark(task: str, scale: str, values: dict[str, Any] | None = None) -> Benchmark:
    """The benchmark `task/scale` from `conf/task/`, or from `values` in place of that file's."""
    file = f"conf/task/{task}.yaml"
    offered = checked(TaskFile, values or load("task", task), f"{file}:").scales
    if scale not in offered:
        raise unknown(f"scale of {task}", scale, offered)
    found = checked(Benchmark, {"task": task, "scale": scale, **offered[scale]}, f"{file}: scales.{scale}")
    _check_free(found, f"{file}: scales.{scale}.free")
    return found


def _check_free(of: Benchmark, where: str) -> None:
    """Raise UserError unless what is free are hyperparameters, and their own values lie within the ranges."""
    for name, free in of.free.items():
        for each in (name, free.proportional_to) if isinstance(free, Formula) else (name,):
            if each not in of.hyperparameters:
                raise unknown(f"hyperparameter in {where}", each, of.hyperparameters)
        value = of.hyperparameters[name]
        if isinstance(free, Range) and not (isinstance(value, int | float) and free.low <= value <= free.high):
            raise UserError(
                f"{where}.{name} goes from {free.low:g} to {free.high:g}, without the benchmark's own {value!r}"
            )


def system(name: str, values: dict[str, Any] | None = None) -> System:
    """The system `conf/hw/<name>.yaml`, or the already overridden `values` of that file.

    Raises UserError for a field that is wrong, and for a file with a price that does not say whose it is.
    """
    file = load("hw", name)
    priced = [each for each in ("price_per_hour", "price_per_cpu_hour") if file.get(each) is not None]
    if priced and not file.get("price"):
        said = ", ".join(each for each in Price.model_fields if each != "currency")
        raise UserError(f"conf/hw/{name}.yaml gives {priced[0]} and not whose price it is: add price: with {said}")
    return checked(System, {"name": name, **(values or file)}, "hw")


def framework(name: str) -> Framework:
    """The framework `conf/framework/<name>.yaml`."""
    return checked(Framework, {"name": name, **load("framework", name)}, "framework")
