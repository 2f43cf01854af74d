"""The schema of conf/task in docs/adding-a-task.md, made from the models: `python -m tests.schema` writes it there."""

from __future__ import annotations

import re
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from suite.config.dataset import Dataset, File, Mirror, Remote, Shards
from suite.config.models import Benchmark, Evaluation, Formula, Range, TaskFile
from suite.config.values import Values

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "adding-a-task.md"
BEGIN, END = "<!-- schema: made by python -m tests.schema -->\n", "<!-- end of schema -->"
NAMES = {str: "text", int: "whole number", float: "number", bool: "true or false", Any: "any value"}
RECORDS = (TaskFile, Benchmark, Evaluation, Dataset, File, Remote, Mirror, Shards, Range, Formula)
GIVEN_BY_PLACE = {"task", "scale"}  # fields of a benchmark that the file does not hold


def named(kind: Any) -> str:
    """A type in words; for a record, a link to its table."""
    inner = [each for each in get_args(kind) if each is not NoneType and each is not ...]
    if get_origin(kind) is Literal:
        return " or ".join(f"`{each}`" for each in inner)
    if get_origin(kind) is dict:
        return f"names, each with {named(inner[1])}"
    if get_origin(kind) is tuple:
        return f"list of {named(inner[0])}"
    if get_origin(kind) is Annotated:
        return named(inner[0])
    if inner:
        return " or ".join(map(named, inner))
    return NAMES[kind] if kind in NAMES else f"[{kind.__name__}](#{kind.__name__.lower()})"


def row(name: str, field: FieldInfo) -> str:
    """A field as a row of Markdown."""
    kind = "names, each with a [Benchmark](#benchmark)" if name == "scales" else named(field.annotation)
    default = "yes" if field.is_required() else "no"
    meaning = " ".join((field.description or "").split())
    return f"| `{name}` | {kind} | {default} | {meaning} |"


def table(record: type[Values]) -> str:
    """A record's fields as a table of Markdown."""
    text = " ".join((record.__doc__ or "").split())
    fields = [row(name, field) for name, field in record.model_fields.items() if name not in GIVEN_BY_PLACE]
    heads = ["| field | value | required | meaning |", "|---|---|---|---|"]
    return "\n".join([f"### {record.__name__}", text, "", *heads, *fields]) + "\n"


def written(document: str) -> str:
    """The document with its schema replaced by that of the models."""
    schema = BEGIN + "\n" + "\n".join(map(table, RECORDS)) + "\n" + END
    return re.sub(re.escape(BEGIN) + ".*" + re.escape(END), lambda _: schema, document, flags=re.DOTALL)


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text()))
