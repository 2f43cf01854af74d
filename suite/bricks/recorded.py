"""What a framework's recorder hands over: the calls of a step in their order, and the tensors between them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from suite.bricks.brick import Call, Tensor

BATCHES = 8  # of a task that are looked at, for they may differ


@dataclass(frozen=True)
class Called:
    """A call of a step: its arguments refer to the step's tensors by number, `made` are those that it makes."""

    call: Call
    made: tuple[int, ...]
    gradient: bool


@dataclass
class Recorded:
    """The calls of a step; `left_out` counts those of operators that no table has.

    `between` are seconds of the host's CPU time that lie in no brick: between the calls, and in those left out, forward
    alone. None where that was not measured. `at` are the samples before the step, in a run whose steps
    differ; else None.
    """

    tensors: list[Tensor] = field(default_factory=list)
    calls: list[Called] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    between: float | None = None
    at: int | None = None
