"""Bricks timed, each once a round, the rounds in new random orders: what was run between leaves caches as a model does.

A brick's weights were last used a round ago, as a model's were a step ago, and what it is given was made just before,
as by the layer in front of it. Some rounds are taken with hot caches too, the same brick a second time at once, and
with cold ones, other memory read in between: the truth lies between these.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import psutil

from suite.bricks.frameworks import Framework, Runner
from suite.bricks.record import Brick, Time
from suite.errors import UserError
from suite.harness.implementation import Device
from suite.probe.record import one_line
from suite.probe.subject import SEED

FLUSHED = 128 << 20  # bytes, more than caches hold
BRACKET = 4  # one round in so many is taken hot and cold as well
SHARE = 0.25  # of the memory that is free, for the bricks that are held at a time
WARM_UP = 1


@dataclass
class Timed:
    """What was measured of a brick."""

    us: list[float] = field(default_factory=list)
    hot: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)
    why: str | None = None

    def time(self) -> Time:
        """As the file has it."""
        if self.why:
            return Time(why=self.why)
        return Time(us=tuple(self.us), hot=tuple(self.hot), cold=tuple(self.cold))


class Group:
    """Bricks that are held in memory together and measured in turn."""

    def __init__(self, running: dict[int, Runner], found: Sequence[Timed]) -> None:
        self.running, self.found = running, found
        self.order, self.other = random.Random(SEED), np.ones(FLUSHED // 8)
        for _ in range(WARM_UP):
            for at in list(running):
                self._attempt(at)

    def round(self) -> None:
        """Each brick once."""
        for at in self._shuffled():
            self._note(at, "us", self._attempt(at))

    def bracket(self) -> None:
        """Each brick once with hot caches, and once with cold ones."""
        for at in self._shuffled():
            self._attempt(at)
            self._note(at, "hot", self._attempt(at))
        for at in self._shuffled():
            self._note(at, "cold", self._attempt(at, self._flush))

    def _shuffled(self) -> list[int]:
        return self.order.sample(list(self.running), len(self.running))

    def _attempt(self, at: int, between: Callable[[], None] = lambda: None) -> float | None:
        runner = self.running.get(at)
        if runner is None:
            return None
        try:
            runner.prepare()
            between()
            seconds = runner.run()
            runner.done()
        except Exception as error:  # whatever a framework raises
            self.found[at].why = one_line(error)
            del self.running[at]
            return None
        return 1e6 * seconds

    def _note(self, at: int, name: str, us: float | None) -> None:
        if us is not None:
            getattr(self.found[at], name).append(us)

    def _flush(self) -> None:
        self.other += 1


def measure(
    framework: Framework, bricks: Sequence[Brick], device: Device, mode: str, repeats: int, say: Callable[[str], None]
) -> tuple[list[Time], float]:
    """The times of bricks, in `repeats` rounds, and the seconds that these took. `say` is told what is being done."""
    found, spent, done = [Timed() for _ in bricks], 0.0, 0
    for running in groups(framework, bricks, device, mode, found):
        began, done = time.perf_counter(), done + len(running)
        group = Group(running, found)
        for at in range(repeats):
            say(f"measuring, round {at + 1} of {repeats}, {done} of {len(bricks)} bricks")
            group.round()
            if at % BRACKET == 0:
                group.bracket()
        spent += time.perf_counter() - began
    return [each.time() for each in found], spent


def groups(
    framework: Framework, bricks: Sequence[Brick], device: Device, mode: str, found: Sequence[Timed]
) -> Iterator[dict[int, Runner]]:
    """The bricks by their places, built, as many at a time as there is room for; why others cannot be is noted."""
    room = int(SHARE * psutil.virtual_memory().available)
    held, running = 0, dict[int, Runner]()
    for at, brick in enumerate(bricks):
        try:
            runner = framework.runner(brick, device, mode, room)
        except UserError as error:
            found[at].why = one_line(error)
            continue
        if running and held + runner.bytes > room:
            yield running
            held, running = 0, {}
        running[at], held = runner, held + runner.bytes
    if running:
        yield running
