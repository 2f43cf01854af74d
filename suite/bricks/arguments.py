"""What the arguments of a call may be: plain values, lists of these, and references, all bounded."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, get_args

MOST_CALLS, MOST_TENSORS = 10, 20_000  # of a brick
MOST_NUMBERED = 1 << 24  # tensors of a step, before it becomes bricks
DEEPEST, LONGEST_LIST, LONGEST_TEXT, LARGEST = 4, 20_000, 100, 1 << 63
FLOATS = ("float32", "float16", "bfloat16", "float64")
Dtype = Literal[
    "float32", "float16", "bfloat16", "float64", "bool", "uint8", "int8", "int16", "int32", "int64", "uint64"
]  # fmt: skip
DTYPES = get_args(Dtype)
WIDTHS = dict.fromkeys(("float64", "int64", "uint64"), 8) | dict.fromkeys(("float32", "int32"), 4)
WIDTHS |= dict.fromkeys(("float16", "bfloat16", "int16"), 2) | dict.fromkeys(("bool", "uint8", "int8"), 1)  # bytes
REFERENCES = ("tensor", "output", "dtype", "slice", "layout", "number", "device", "ellipsis")


def check_argument(value: Any, depth: int = 0) -> None:
    """Raise ValueError if `value` cannot be an argument of a call."""
    if depth > DEEPEST:
        raise ValueError(f"lists in lists more than {DEEPEST} deep")
    match value:
        case None | bool():
            return
        case int() | float():
            if not abs(value) <= LARGEST:
                raise ValueError("a number beyond what an argument may be")
        case str():
            if len(value) > LONGEST_TEXT:
                raise ValueError(f"text of more than {LONGEST_TEXT} characters")
        case list() | tuple():
            if len(value) > LONGEST_LIST:
                raise ValueError(f"a list of more than {LONGEST_LIST} values")
            for each in value:
                check_argument(each, depth + 1)
        case dict() if len(value) == 1:
            _check_reference(*next(iter(value.items())))
        case _:
            raise ValueError("an argument is a plain value, a list, or one reference")


def _check_reference(kind: Any, value: Any) -> None:
    match kind, value:
        case "tensor", int() if not isinstance(value, bool) and 0 <= value < MOST_NUMBERED:
            return
        case "output", [int() as call, int() as at] if 0 <= call < MOST_CALLS and 0 <= at < MOST_TENSORS:
            return
        case "dtype", str() if value in DTYPES:
            return
        case "layout", str() if value in ("contiguous", "channels_last", "preserve"):
            return
        case "number", "inf" | "-inf" | "nan":
            return
        case "slice", [_, _, _] if all(
            each is None or (isinstance(each, int) and abs(each) <= LARGEST) for each in value
        ):
            return
        case "device" | "ellipsis", True:
            return
    raise ValueError(f"no reference is of the kind {str(kind)[:20]!r} with such a value; {', '.join(REFERENCES)} are")


def references(value: Any, kind: str) -> Iterator[Any]:
    """Yield the values of all references of one kind in an argument or a list of them, in order."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from references(each, kind)
    elif isinstance(value, dict) and kind in value:
        yield value[kind]


def number(value: float) -> Any:
    """A float as an argument holds it; those that JSON lacks (inf, -inf, nan) by name."""
    return value if math.isfinite(value) else {"number": str(value)}
