"""Sets values of the chosen benchmark from the command line: each must exist already and keeps its type.

A hyperparameter that the benchmark ties to one of them by a formula follows it, unless it is set itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from suite import config
from suite.config.models import Benchmark, Formula
from suite.errors import UserError, shown, unknown

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
    """`benchmark` with the values of `given`, by paths such as `target` or `hyperparameters.dropout`, and with the
    hyperparameters that follow them by a formula.

    Raises UserError for an unknown name, with the nearest one at its level, for a value of another type, and for
    `dataset.subset`, which records a share of the data and takes none.
    """
    values = benchmark.model_dump()
    for path, value in given.items():
        _set(values, path.split("."), value, benchmark.name)
    if isinstance(chosen := values[HYPERPARAMETERS], dict):
        whole = given.get(HYPERPARAMETERS)
        own = {path.removeprefix(f"{HYPERPARAMETERS}.") for path in given} | set(
            whole if isinstance(whole, dict) else ()
        )
        _follow(benchmark, chosen, own)
    return config.checked(Benchmark, values, benchmark.name)


def _follow(benchmark: Benchmark, values: dict[str, Any], own: set[str]) -> None:
    """Set each hyperparameter that follows a changed one by a formula, unless it is in `own`, those set themselves."""
    for name, free in benchmark.free.items():
        if isinstance(free, Formula) and name not in own:
            usual, other = benchmark.hyperparameters[free.proportional_to], values[free.proportional_to]
            if other != usual and other > 0:
                values[name] = free.of(benchmark.hyperparameters[name], other, usual)


def _set(values: dict[str, Any], path: list[str], value: Any, of: str) -> None:
    if path == ["dataset", "subset"]:
        raise UserError(f"dataset.subset is not to be given: write subset={shown(value)}")
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
    """Whether `value` is of the type of `reference`; an int may stand for a float, but not the other way round."""
    if reference is None:
        return True
    if isinstance(reference, list):
        return isinstance(value, list) and all(
            not reference or any(_alike(each, known) for known in reference) for each in value
        )
    if type(reference) is float:
        return type(value) in (int, float) and math.isfinite(value)
    return type(value) is type(reference)
