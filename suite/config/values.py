"""Immutable records, and which of them stand at a place in another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict


class Values(BaseModel):
    """An immutable record that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


def records_at(record: type[Values], path: Sequence[int | str]) -> list[type[Values]]:
    """The records that can stand at `path` (of names, indices, and pydantic's names of a union's members) in `record`.

    Where none is found they are those of the nearest place above.
    """
    at: list[type[Values]] = [record]
    for part in path:
        fields = [each.model_fields[part] for each in at if part in each.model_fields] if isinstance(part, str) else []
        inner = [each for field in fields for each in _records_in(field.annotation)]
        at = inner or [each for each in at if each.__name__ == part] or at
    return at


def _records_in(annotation: Any) -> list[type[Values]]:
    if isinstance(annotation, type) and issubclass(annotation, Values):
        return [annotation]
    return [each for argument in get_args(annotation) for each in _records_in(argument)]
