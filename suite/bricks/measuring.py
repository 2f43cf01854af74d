"""Bricks timed, with their weights in the caches and with their weights in memory: the truth lies between these.

A model runs each operator once a step. What the operator is given was made just before, by the one in front of it, and
lies in the caches; so do its weights where those of the whole model fit in there, and else they come from memory. A
brick is run once, off the clock, and then again: hot. For the other, memory is read until nothing of it is left in the
caches, then the brick is run with a twin of its weights, which brings back all but these, and then with its own: cold.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import psutil

from suite.bricks.frameworks import Framework, Runner
from suite.bricks.record import Brick, Time
from suite.errors import UserError
from suite.harness.implementation import Device
from suite.probe.record import one_line
from suite.probe.subject import SEED

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
USUAL_CACHE = 32 << 20  # bytes, where the system does not tell
FLUSHED = 2  # times the largest cache is read to flush it
BURST = 4  # hot runs in a row, after one that is not timed
COLD = 2  # one round in so many is taken with cold weights as well
LEAST_HELD = 1 << 15  # bytes of weights for which it matters where they lie
SHARE = 0.1  # of the memory that is free, for the bricks that are held at a time


@dataclass
class Timed:
    """What was measured of a brick."""

    held: int
    hot: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)
    why: str | None = None

    def time(self) -> Time:
        """As the file has it."""
        if self.why:
            return Time(held=self.held, why=self.why)
        return Time(hot=tuple(self.hot), cold=tuple(self.cold), held=self.held)


class Group:
    """Bricks that are held in memory together and measured in turn."""

    def __init__(self, running: dict[int, Runner], found: Sequence[Timed]) -> None:
        self.running, self.found, self.order = running, found, random.Random(SEED)
        self.other = np.ones(FLUSHED * largest_cache() // 8)

    def round(self, cold: bool) -> None:
        """Each brick, hot, and `cold` as well if that is wanted."""
        for at in self.order.sample(list(self.running), len(self.running)):
            try:
                self._hot(self.running[at], self.found[at])
                if cold:
                    self._cold(self.running[at], self.found[at])
            except Exception as error:  # whatever a framework raises
                self.found[at].why = one_line(error)
                del self.running[at]

    def _hot(self, runner: Runner, found: Timed) -> None:
        _run(runner)
        found.hot += [_run(runner) for _ in range(BURST)]

    def _cold(self, runner: Runner, found: Timed) -> None:
        if found.held >= LEAST_HELD:
            self.other += 1
            _run(runner, twin=True)
        found.cold.append(_run(runner))


def _run(runner: Runner, twin: bool = False) -> float:
    """Microseconds of a run."""
    runner.prepare(twin)
    seconds = runner.run()
    runner.done()
    return 1e6 * seconds


@cache
def largest_cache() -> int:
    """Bytes of the largest cache of the processor, as Linux tells it."""
    sizes = [path.read_text().strip() for path in CACHES.glob("index*/size")]
    return max((int(size[:-1]) << 10 for size in sizes if size.endswith("K")), default=USUAL_CACHE)


def measure(
    framework: Framework, bricks: Sequence[Brick], device: Device, mode: str, repeats: int, say: Callable[[str], None]
) -> tuple[list[Time], float]:
    """The times of bricks, in `repeats` rounds, and the seconds that these took. `say` is told what is being done."""
    found, spent, done = [Timed(each.held) for each in bricks], 0.0, 0
    for running in groups(framework, bricks, device, mode, found):
        began, done = time.perf_counter(), done + len(running)
        group = Group(running, found)
        for at in range(repeats):
            say(f"measuring, round {at + 1} of {repeats}, {done} of {len(bricks)} bricks")
            group.round(cold=at % COLD == 0)
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
        if running and held + 2 * runner.bytes > room:
            yield running
            held, running = 0, {}
        running[at], held = runner, held + 2 * runner.bytes
    if running:
        yield running
