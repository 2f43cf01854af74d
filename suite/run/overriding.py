"""Values of the chosen benchmark that the command line sets: each has to be there, and keeps its kind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from suite import config
from suite.config.models import Benchmark
from suite.errors import UserError, unknown

HYPERPARAMETERS = "hyperparameters"
KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a mapping",
}


def overridden(benchmark: Benchmark, given: Mapping[str, Any]) -> Benchmark:
    """`benchmark` with the values of `given`, by their paths such as `target` or `hyperparameters.dropout`.

    Raises UserError for a name that is not there, with the nearest of its level, and for a value of another kind.
    """
    values = benchmark.model_dump()
    for path, value in given.items():
        _set(values, path.split("."), value, benchmark.name)
    return config.checked(Benchmark, values, benchmark.name)


def _set(values: dict[str, Any], path: list[str], value: Any, of: str) -> None:
    at: Any = values
    for index, name in enumerate(path):
        above = ".".join(path[:index])
        if not isinstance(at, dict) or not at:
            raise UserError(f"{'.'.join(path)}: {above} of {of} is {at!r} and has no values of its own")
        if name not in at:
            kind = "hyperparameter" if above == HYPERPARAMETERS else f"value in {above}" if above else "value"
            raise unknown(f"{kind} of {of}", name, at)
        holder, at = at, at[name]
    if isinstance(value, dict) and isinstance(at, dict):
        for name, each in value.items():
            _set(values, [*path, str(name)], each, of)
    elif path[0] == HYPERPARAMETERS != path[-1] and not _alike(value, at):
        raise UserError(f"{'.'.join(path)} is {value!r}: {of} has {KINDS[type(at)]} there, {at!r}")
    else:
        holder[path[-1]] = value


def _alike(value: Any, reference: Any) -> bool:
    """Whether `value` is of the reference's kind: a whole number may stand for a number, not the other way."""
    if reference is None:
        return True
    if isinstance(reference, list):
        return isinstance(value, list) and all(
            not reference or any(_alike(each, known) for known in reference) for each in value
        )
    if type(reference) is float:
        return type(value) in (int, float) and math.isfinite(value)
    return type(value) is type(reference)
