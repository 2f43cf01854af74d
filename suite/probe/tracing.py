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

    `shapes` are those of its tensors. `layer` is the path of the innermost layer that called it, or to whose backward
    pass it belongs; empty outside all. `flops` are those of matrix products and convolutions: 0 for other operators,
    None if they cannot be counted. `bytes`, read and written, are None if a shape is unknown.
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
    """`steps` steps that took `seconds` in all; `spent` has the seconds of each phase."""

    steps: int
    seconds: float
    spent: Mapping[str, float]


@dataclass(frozen=True)
class Trace:
    """`steps` steps that took `seconds` in all: their calls, and how many parameters each layer itself has."""

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
    """Bytes that a step holds when it holds most, by kind; the step took `seconds` while it was tracked.

    `parameters` are those trained; `buffers` what layers hold besides: frozen weights, averages of weights, statistics.
    `saved` are activations kept for the backward pass, `temporary` is all else that is made and freed during the step.
    Data that a workload keeps outside its layers' buffers is not counted.
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
        """The sum of all kinds."""
        return self.parameters + self.buffers + self.gradients + self.optimizer + self.saved + self.temporary


class Tracked(Protocol):
    """A workload that was built so that its memory can be tracked."""

    def step(self) -> Memory:
        """Take a step and return what it holds."""
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
    """The sum over some calls; `flops` and `bytes` are None if they are unknown for any call."""

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
    """A sentence that names the operators without a count, or says that there is none; None if all have one."""
    if not counts:
        return "no matrix product or convolution of the framework was called"
    names = [name for name, count in counts.items() if count is None]
    return f"the operations of {', '.join(names)} cannot be counted" if names else None


def sums(calls: Iterable[Call], key: Callable[[Call], Hashable]) -> dict[Hashable, Sum]:
    """What the calls of each `key` add up to, those that took longest first."""
    found: dict[Hashable, Sum] = defaultdict(Sum)
    for call in calls:
        found[key(call)].add(call)
    return dict(sorted(found.items(), key=lambda item: -item[1].seconds))
