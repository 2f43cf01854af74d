"""What a framework's recorder returns: the calls of a step in order, and the tensors between them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from suite.bricks.brick import Call, Tensor

BATCHES = 8  # of a task that are recorded, because they may differ


@dataclass(frozen=True)
class Called:
    """A call of a step. Its arguments refer to the step's tensors by number; `made` are the numbers of its results."""

    call: Call
    made: tuple[int, ...]
    gradient: bool


@dataclass
class Recorded:
    """The calls of a step; `left_out` counts those that no brick can hold.

    `between` is the host's time in seconds that lies in no brick: between the calls, and in those calls of the forward
    pass that were left out. None if it was not measured. `at` is the number of samples before the step in a run whose
    steps differ, else None.
    """

    tensors: list[Tensor] = field(default_factory=list)
    calls: list[Called] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    between: float | None = None
    at: int | None = None
