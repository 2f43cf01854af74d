"""Steps as they are run and steps that are watched, in turn: what watching them costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from suite.probe import measuring
from suite.probe.record import Figure
from suite.probe.subject import Subject
from suite.probe.tracing import Phases, Timeline, Trace, Watched
from suite.probe.workload import Workload

Found = TypeVar("Found", Phases, Timeline, Trace)


class Watching:
    """A subject built twice: to be run, and to be watched."""

    def __init__(self, subject: Subject) -> None:
        self.watched: Watched = subject.watched()
        self.workload: Workload = subject.build()
        first = measuring.first_steps(self.workload, subject.seconds / 2)
        self.steps = measuring.steps_for(subject.seconds / 2, first[measuring.end_of_warm_up(first) :])
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
        """What a step takes, and how many times that when it is watched."""
        milliseconds = [1e3 * each for each in self.plain]
        ratios = [watched / plain for watched, plain in zip(self.seconds, self.plain, strict=True)]
        return {"step": measuring.mean(milliseconds, "ms"), "overhead": measuring.mean(ratios, "x")}
