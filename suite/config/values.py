"""Immutable records, made from plain values, and the error for values that do not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date
from functools import cache
from reprlib import repr as brief  # short for values of any depth and length
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic_core import ErrorDetails

from suite.errors import UserError, shown, unknown


class Values(BaseModel):
    """An immutable record that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_other_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse true, false and a text where only a number can stand: pydantic takes true as 1, and '2' as 2."""
        for each in value.values() if isinstance(value, dict) else (value,):
            if isinstance(each, bool | str) and _is_number(cls, str(info.field_name)):
                kind = "written without quotes" if isinstance(each, str) else "not true or false"
                raise ValueError(f"Input should be a number, {kind}")
        return value


Record = TypeVar("Record", bound=Values)


def checked(record: type[Record], values: dict[str, Any], where: str) -> Record:
    """`values` as `record`. Raises UserError with one line that names `where` and the field at fault."""
    try:
        return record.model_validate(values)
    except ValidationError as error:
        raise _mistake(record, _nearest(error.errors()), where) from None


def _nearest(found: list[ErrorDetails]) -> ErrorDetails:
    """The error to tell: of a union, one of the member that fits best; and an unknown name before a missing one."""
    faults = Counter(each["loc"][:-1] for each in found)
    return min(found, key=lambda e: (-len(e["loc"]), faults[e["loc"][:-1]], e["type"] != "extra_forbidden"))


def _mistake(record: type[Values], error: ErrorDetails, where: str) -> UserError:
    """The error, in one line, for what pydantic found: the field, and what is wrong with it or the nearest name."""
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


def records_at(record: type[Values], path: Sequence[int | str]) -> list[type[Values]]:
    """The records that can stand at `path` (of names, indices, and pydantic's names of a union's members) in `record`.

    If there is none they are those of the nearest place above.
    """
    at: list[type[Values]] = [record]
    for part in path:
        fields = [each.model_fields[part] for each in at if part in each.model_fields] if isinstance(part, str) else []
        inner = [each for field in fields for each in _kinds(field.annotation) if issubclass(each, Values)]
        at = inner or [each for each in at if each.__name__ == part] or at
    return at


@cache
def _is_number(record: type[Values], name: str) -> bool:
    """Whether the field, or each value of the mapping that it holds, can be a number and neither truth nor text."""
    kinds = set(_kinds(record.model_fields[name].annotation))
    return bool(kinds & {int, float}) and not kinds & {bool, str}


def _kinds(annotation: Any) -> list[type]:
    """The types that an annotation is made of."""
    if isinstance(annotation, type):
        return [annotation]
    return [each for argument in get_args(annotation) for each in _kinds(argument)]
