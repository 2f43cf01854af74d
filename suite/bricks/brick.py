"""A brick: one or more operator calls, and the tensors that they are given."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from pydantic import Field, ValidationInfo, field_validator, model_validator

from suite.bricks.arguments import (
    LONGEST_TEXT,
    MOST_CALLS,
    MOST_TENSORS,
    WIDTHS,
    Dtype,
    check_argument,
    references,
)
from suite.config.values import Values

MOST_ELEMENTS = 1 << 32
LEAST_HELD = 1 << 15  # bytes of weights; with fewer it hardly matters where they lie


class Tensor(Values):
    """A tensor that a brick is given: its shape, type and strides (in elements; None if contiguous).

    A `fresh` tensor was made just before by another operator; others, such as weights, were there long before. `below`
    is an exclusive upper bound of integer values, such as the indices of an embedding. A `variable` is one that a graph
    may write to.
    """

    shape: tuple[int, ...] = Field(max_length=8)
    strides: tuple[int, ...] | None = None
    dtype: Dtype
    fresh: bool = False
    gradient: bool = False
    variable: bool = False
    below: int = Field(default=1, ge=1, lt=1 << 31)

    @property
    def elements(self) -> int:
        """The number of elements that its memory spans, gaps included."""
        if self.strides is None or 0 in self.shape:
            return prod(self.shape)
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))

    @model_validator(mode="after")
    def _fits(self) -> Tensor:
        if self.strides is not None:
            if len(self.strides) != len(self.shape):
                raise ValueError("a stride for each axis")
            apart = 1
            for stride, size in sorted(zip(self.strides, self.shape, strict=True)):
                if size > 1 and stride < apart:
                    raise ValueError("elements lie on top of each other")
                apart = max(apart, stride * size)
        if any(size < 0 for size in self.shape) or self.elements > MOST_ELEMENTS:
            raise ValueError(f"a tensor has {MOST_ELEMENTS:,} elements at most")
        return self


class Call(Values):
    """A call of an operator in the closed table. An argument is a plain value, a list of these, or a reference:

    {"tensor": i}, one of the brick's; {"output": [call, i]}, of an earlier call; {"dtype": name}, {"slice": [a, b, c]},
    {"layout": name}, {"number": "inf", "-inf" or "nan"}, {"device": true}, {"ellipsis": true}.
    """

    op: str = Field(max_length=LONGEST_TEXT)
    arguments: tuple[Any, ...] = Field(default=(), max_length=100)
    keywords: dict[str, Any] = Field(default_factory=dict, max_length=100)

    @field_validator("arguments", "keywords")
    @classmethod
    def _plain(cls, value: Any, info: ValidationInfo) -> Any:
        for each in value.values() if isinstance(value, dict) else value:
            check_argument(each)
        return value

    def references(self, kind: str) -> Iterator[Any]:
        """Yield the values of all references of one kind in the arguments, in order."""
        yield from references((*self.arguments, *self.keywords.values()), kind)


class Brick(Values):
    """Consecutive calls, each but the first taking what the one before made; `gradient`: with the backward pass."""

    tensors: tuple[Tensor, ...] = Field(max_length=MOST_TENSORS)
    calls: tuple[Call, ...] = Field(min_length=1, max_length=MOST_CALLS)
    gradient: bool = False

    @model_validator(mode="after")
    def _refers(self) -> Brick:
        for at, call in enumerate(self.calls):
            if any(index >= len(self.tensors) for index in call.references("tensor")):
                raise ValueError("a call refers to a tensor that the brick does not have")
            if any(earlier >= at for earlier, _ in call.references("output")):
                raise ValueError("a call refers to one that is not before it")
        return self

    @property
    def held(self) -> int:
        """Bytes of the tensors that are not fresh, such as weights."""
        return sum(prod(each.shape) * WIDTHS[each.dtype] for each in self.tensors if not each.fresh)

    @property
    def given(self) -> int:
        """Bytes of the fresh tensors."""
        return sum(prod(each.shape) * WIDTHS[each.dtype] for each in self.tensors if each.fresh)

    @property
    def bytes(self) -> int:
        """Bytes of memory that all its tensors take, gaps included."""
        return sum(each.elements * WIDTHS[each.dtype] for each in self.tensors)

    @property
    def content(self) -> str:
        """All that it says, as JSON: bricks are the same if their contents are."""
        return self.model_dump_json(exclude_defaults=True)

    @property
    def name(self) -> str:
        """The operators of its calls, and the shape of its first fresh tensor, or else of its first."""
        shape = next((each.shape for each in self.tensors if each.fresh), self.tensors[0].shape if self.tensors else ())
        return f"{' '.join(call.op.rpartition('.')[2] for call in self.calls)} {'x'.join(map(str, shape))}"
