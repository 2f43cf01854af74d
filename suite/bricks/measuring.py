"""Time bricks with their weights in the caches and with their weights in memory: the truth lies between these.

A model runs each operator once a step. The operator's input was made just before, by the operator in front of it, and
lies in the caches. So do its weights if those of the whole model fit; otherwise they come from memory. Its code was
evicted by the operators between. For the hot time, bricks that are neighbours in the file, and so in a model, are run
in turn, once untimed and once timed. For the cold time, memory is written until no weights are left in the caches; then
each brick is run with a twin of its weights, which brings back everything but its weights, and then with its own. An
accelerator has no cold time: what is written is the host's memory, which leaves its caches as they are.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from suite.bricks.brick import LEAST_HELD, Brick
from suite.bricks.frameworks import Framework, Runner
from suite.bricks.record import COLD, Cache, Time
from suite.harness.implementation import Device
from suite.measure.cpus import own_cpus
from suite.measure.machine import room_of
from suite.measure.processor import caches
from suite.probe.record import one_line
from suite.probe.subject import SEED

Floats = np.ndarray[Any, np.dtype[np.float64]]
USUAL_CACHE = 32 << 20  # bytes, where the system does not tell
FLUSHED = 2  # times the size of the largest cache is written, to flush it
WINDOW = 8  # neighbours that are run in turn
EIGHTHS = 8  # of the cache; see `record.Cache`
SWEEPS = 5  # over memory of each size, so many times
SLOWER = 1.3  # a byte from memory takes at least this many times as long, or no cache is seen
SHARE = 0.1  # of the free memory, for the bricks that are held at a time


@dataclass
class Timed:
    """What was measured of a brick."""

    held: int
    given: int
    hot: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)
    why: str | None = None

    def time(self) -> Time:
        """The times as the file holds them."""
        if self.why:
            return Time(held=self.held, given=self.given, why=self.why)
        return Time(hot=tuple(self.hot), cold=tuple(self.cold), held=self.held, given=self.given)


class Group:
    """Bricks that are held in memory together and measured in turn."""

    def __init__(self, running: dict[int, Runner], found: Sequence[Timed]) -> None:
        self.running, self.found, self.order = running, found, random.Random(SEED)
        self.other = np.ones(FLUSHED * cache_bytes() // 8)

    def round(self, cold: bool) -> None:
        """Run each brick hot, and if `cold` is set also with cold weights."""
        places = sorted(self.running)
        windows = [places[at : at + WINDOW] for at in range(0, len(places), WINDOW)]
        for window in self.order.sample(windows, len(windows)):
            self._each(window, _warm)
            self._each(window, _hot)
        if cold:
            self.other += 1  # from now on no weights are in the caches, until their brick's turn
            self._each(self.order.sample(places, len(places)), _cold)

    def _each(self, places: Sequence[int], how: Callable[[Runner, Timed], None]) -> None:
        for at in places:
            if at in self.running:
                try:
                    how(self.running[at], self.found[at])
                except Exception as error:  # whatever a framework raises
                    self.found[at].why = one_line(error)
                    del self.running[at]


def _warm(runner: Runner, found: Timed) -> None:
    _run(runner, twin=not found.hot and found.held >= LEAST_HELD)  # which allocates the twins before anything is timed


def _hot(runner: Runner, found: Timed) -> None:
    found.hot.append(_run(runner))


def _cold(runner: Runner, found: Timed) -> None:
    if found.held < LEAST_HELD:
        found.cold.append(found.hot[-1])
        return
    _run(runner, twin=True)
    found.cold.append(_run(runner))


def _run(runner: Runner, twin: bool = False) -> float:
    """Run once and return the microseconds."""
    runner.prepare(twin)
    seconds = runner.run()
    runner.done()
    return 1e6 * seconds


@cache
def cache_bytes() -> int:
    """Bytes of the processor's largest cache, as Linux reports it, or else `USUAL_CACHE`."""
    return max((int(size[:-1]) << 10 for *_, size in caches() if size.endswith("K")), default=USUAL_CACHE)


@cache
def largest_cache() -> Cache:
    """What the largest cache keeps, measured: less than its size where others share it.

    Of data a little larger than the cache hardly anything stays: what was used longest ago is evicted first, and is
    what is needed next.
    """
    size = cache_bytes()
    read = [size * part // EIGHTHS for part in range(1, 2 * EIGHTHS + 1)]
    memory = np.ones(read[-1] // 8)
    paces = np.min([[_sweep(memory[: each // 8]) for each in read] for _ in range(SWEEPS)], axis=0)
    paces = np.minimum.accumulate(paces[::-1])[::-1]  # less never takes longer, whatever disturbed it
    quick, slow = paces[0], paces[-1]
    if slow < SLOWER * quick:
        return Cache(size=size, missed=tuple(float(each > size) for each in read))
    return Cache(size=size, missed=tuple(map(float, (paces - quick) / (slow - quick))))


def _sweep(memory: Floats) -> float:
    """Seconds to read a byte, in the last of `SWEEPS` sweeps."""
    for _ in range(SWEEPS):
        began = time.perf_counter()
        memory.sum()
        seconds = time.perf_counter() - began
    return seconds / memory.nbytes


def measure(
    framework: Framework, bricks: Sequence[Brick], device: Device, mode: str, repeats: int, say: Callable[[str], None]
) -> tuple[list[Time], float]:
    """Time the bricks in `repeats` rounds; return the times and the seconds of all rounds. `say` gets the progress."""
    found, spent, done = [Timed(each.held, each.given) for each in bricks], 0.0, 0
    for running in groups(framework, bricks, device, mode, found):
        began, done = time.perf_counter(), done + len(running)
        group = Group(running, found)
        for at in range(repeats):
            say(f"measuring, round {at + 1} of {repeats}, {done} of {len(bricks)} bricks")
            group.round(cold=device.kind == "cpu" and at % COLD == 0)
        spent += time.perf_counter() - began
        del group
        running.clear()  # before the next are built
    return [each.time() for each in found], spent


def quickest_counts(framework: Framework, device: Device) -> bool:
    """Whether the quickest round of each brick counts; see `Framework`."""
    return framework.SPREADS_LATE and device.kind == "cpu" and own_cpus() > 1


def groups(
    framework: Framework, bricks: Sequence[Brick], device: Device, mode: str, found: Sequence[Timed]
) -> Iterator[dict[int, Runner]]:
    """Yield built bricks by place, as many at a time as fit in memory; note in `found` why a brick cannot be built."""
    room = int(SHARE * room_of(device.kind))
    held, running = 0, dict[int, Runner]()
    for at, brick in enumerate(bricks):
        try:
            runner = framework.runner(brick, device, mode, room)
        except Exception as error:  # whatever a framework raises, such as for want of memory
            found[at].why = one_line(error)
            continue
        if running and held + 2 * runner.bytes > room:
            yield running
            held, running = 0, {}
        running[at], held = runner, held + 2 * runner.bytes
    if running:
        yield running
