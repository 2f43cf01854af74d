"""The values a run is made of, read from conf/ and checked: benchmarks, systems, frameworks.

`folder` reads the files, `models` says what they may hold, `plan` is what a command makes of them, `logkeys` are our
own keys of a log.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import ValidationError

from suite.config.folder import load, names
from suite.config.models import Benchmark, Framework, System, Values
from suite.errors import UserError, unknown

__all__ = ["benchmark", "checked", "framework", "load", "names", "scales", "system"]

Record = TypeVar("Record", bound=Values)


def checked(record: type[Record], values: dict[str, Any], where: str) -> Record:
    """`values` as `record`. Raises UserError with one line that names `where` and the field at fault."""
    try:
        return record.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise unknown(f"option of {where}", field, record.model_fields) from None
        raise UserError(f"{where}.{field} is {first['input']!r}: {first['msg']}.") from None


def scales(task: str) -> list[str]:
    """The scales that a task offers, smallest first."""
    return list(load("task", task)["scales"])


def benchmark(task: str, scale: str, values: dict[str, Any] | None = None) -> Benchmark:
    """The benchmark `task/scale` from `conf/task/`, or from the already overridden `values` of that file."""
    values = values or load("task", task)
    if scale not in values["scales"]:
        raise unknown(f"scale of {task}", scale, values["scales"])
    return checked(Benchmark, {"task": task, "scale": scale, **values["scales"][scale]}, "task")


def system(name: str, values: dict[str, Any] | None = None) -> System:
    """The system `conf/hw/<name>.yaml`, or the already overridden `values` of that file."""
    return checked(System, {"name": name, **(values or load("hw", name))}, "hw")


def framework(name: str) -> Framework:
    """The framework `conf/framework/<name>.yaml`."""
    return checked(Framework, {"name": name, **load("framework", name)}, "framework")
