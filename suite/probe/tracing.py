"""A step taken apart: each call of an operator with its phase and layer, and what groups of calls add up to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

PHASES = ("data", "forward", "loss", "backward", "update")
MOST_TRACED = 20  # steps of a repeat: each call of each takes memory
OUTSIDE = "(outside all layers)"
RUN, STEP, PHASE, LAYER, OPERATOR = "run", "step", "phase", "layer", "operator"  # spans; their names begin with these


@dataclass(frozen=True)
class Call:
    """One call of an operator.

    `shapes` are those of its tensors; `layer` is the path of the innermost layer that called it, or in whose backward
    pass it is, empty outside all. `flops` are those of matrix products and convolutions, 0 of others, None of such that
    cannot be counted; `flops` and `bytes`, read and written, are None where a shape is not known.
    """

    operator: str
    shapes: str
    phase: str
    layer: str
    seconds: float
    flops: int | None
    bytes: int | None


@dataclass(frozen=True)
class Phases:
    """`steps` steps, which took `seconds` in all, and each phase so many of them."""

    steps: int
    seconds: float
    spent: Mapping[str, float]


@dataclass(frozen=True)
class Trace:
    """`steps` steps, which took `seconds` in all: their calls, and the parameters of each layer's own."""

    steps: int
    seconds: float
    calls: Sequence[Call]
    parameters: Mapping[str, int]


@dataclass(frozen=True)
class Timeline:
    """`steps` steps, which took `seconds` in all, and how many spans of each kind the file of their trace holds."""

    steps: int
    seconds: float
    spans: Mapping[str, int]


@dataclass(frozen=True)
class Memory:
    """Bytes that a step holds when it holds most, by what they are; tracked it took so many `seconds`.

    `saved` are activations kept for the backward pass, `temporary` is all else that is made and freed meanwhile. Data
    that a workload keeps outside its layers' buffers is not counted.
    """

    seconds: float
    parameters: int
    buffers: int
    gradients: int
    optimizer: int
    saved: int
    temporary: int

    @property
    def peak(self) -> int:
        """All together."""
        return self.parameters + self.buffers + self.gradients + self.optimizer + self.saved + self.temporary


class Tracked(Protocol):
    """A workload that was built so that its memory can be told."""

    def step(self) -> Memory:
        """What a step holds."""
        ...


class Watched(Protocol):
    """A workload that was built to be watched."""

    def phases(self, steps: int) -> Phases:
        """What each of PHASES takes in `steps` steps."""
        ...

    def trace(self, steps: int) -> Trace:
        """The calls of `steps` steps."""
        ...


@dataclass
class Sum:
    """What calls add up to; None where it is not known of all."""

    calls: int = 0
    seconds: float = 0.0
    flops: int | None = 0
    bytes: int | None = 0

    def add(self, call: Call) -> None:
        """Count a call."""
        self.calls += 1
        self.seconds += call.seconds
        self.flops = None if self.flops is None or call.flops is None else self.flops + call.flops
        self.bytes = None if self.bytes is None or call.bytes is None else self.bytes + call.bytes


def uncounted(counts: Mapping[str, int | None]) -> str | None:
    """Which operators have no count, of those that have one or None; None where all have one."""
    names = [name for name, count in counts.items() if count is None]
    return f"the operations of {', '.join(names)} cannot be counted" if names else None


def sums(calls: Iterable[Call], key: Callable[[Call], Hashable]) -> dict[Hashable, Sum]:
    """What the calls of each `key` add up to, those that took longest first."""
    found: dict[Hashable, Sum] = defaultdict(Sum)
    for call in calls:
        found[key(call)].add(call)
    return dict(sorted(found.items(), key=lambda item: -item[1].seconds))
