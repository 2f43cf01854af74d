"""Run plain steps and watched steps in turn, to measure what watching costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from suite.probe import measuring
from suite.probe.record import Figure
from suite.probe.roof import Roof
from suite.probe.subject import Subject
from suite.probe.tracing import MOST_TRACED, Call, Phases, Timeline, Trace, Watched, uncounted
from suite.probe.workload import Workload

Found = TypeVar("Found", Phases, Timeline, Trace)


class Watching:
    """A subject built twice: to be run, and to be watched."""

    def __init__(self, subject: Subject) -> None:
        self.watched: Watched = subject.watched()
        self.workload: Workload = subject.build()
        self.steps = measuring.steps_after_warm_up(self.workload, subject.seconds / 2, subject.seconds / 2)
        self.plain: list[float] = []
        self.seconds: list[float] = []

    def repeat(self, watch: Callable[[int], Found]) -> Found:
        """Plain steps, then watched ones."""
        self.plain.append(measuring.block(self.workload, self.steps) / self.steps)
        found = watch(self.steps)
        self.seconds.append(found.seconds / found.steps)
        return found

    @property
    def step(self) -> float:
        """Seconds of a plain step."""
        return float(np.mean(self.plain))

    def figures(self) -> dict[str, Figure]:
        """How long a step takes, and how many times as long when it is watched."""
        milliseconds = [1e3 * each for each in self.plain]
        ratios = [watched / plain for watched, plain in zip(self.seconds, self.plain, strict=True)]
        return {"step": measuring.mean(milliseconds, "ms"), "overhead": measuring.mean(ratios, "x")}


class Tracing:
    """The calls of watched steps, with looks at the machine's roof in between."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.watching, self.roof = subject, Watching(subject), Roof(subject)
        self.traces: list[Trace] = []

    def repeat(self) -> None:
        """A look at the roof, plain steps, watched ones."""
        self.roof.look()
        watched = self.watching.watched
        self.traces.append(self.watching.repeat(lambda steps: watched.trace(min(steps, MOST_TRACED))))

    @property
    def steps(self) -> int:
        """The number of watched steps."""
        return sum(each.steps for each in self.traces)

    @property
    def calls(self) -> list[Call]:
        """The calls of all watched steps."""
        return [call for each in self.traces for call in each.calls]

    @property
    def notes(self) -> list[str]:
        """Notes that name the operators without a count and those of unknown shapes, if there are any."""
        without = {call.operator: None for call in self.calls if call.flops is None and call.bytes is not None}
        unknown = ", ".join(dict.fromkeys(call.operator for call in self.calls if call.bytes is None))
        shapes = f"operations and bytes are unknown where shapes are: {unknown}" if unknown else None
        return [why for why in (uncounted(without) if without else None, shapes) if why]

    def spent(self) -> list[float]:
        """Seconds that the calls of a step took, for each repeat."""
        return [sum(call.seconds for call in each.calls) / each.steps for each in self.traces]

    def shares(self) -> list[float]:
        """The same in per cent of a plain step, for each repeat."""
        return [100 * each / plain for each, plain in zip(self.spent(), self.watching.plain, strict=True)]
