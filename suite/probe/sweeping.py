"""A sweep: build each cell once, then measure all in turn, in a new random order each time; none stops the others."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict

from suite import __version__
from suite.errors import UserError
from suite.measure import noise
from suite.measure.machine import Machine
from suite.probe import instruments, levels
from suite.probe.levels import Measurement
from suite.probe.record import Cell, Probe, one_line
from suite.probe.subject import SEED, Subject
from suite.record.environment import environment
from suite.record.system import versions


def sweep(level: str, subjects: Sequence[Subject], repeats: int, found: Machine, say: Callable[[str], None]) -> Probe:
    """Look at each of the subjects, all of one system, at a level. `say` is called with what is being done.

    A cell that fails is marked with the reason; a UserError is raised instead if there is only one subject.
    """
    disturbed = noise.watched(found)
    measurement = levels.load(level).measurement
    running: dict[int, Measurement] = {}
    arithmetic: dict[int, Callable[[], None]] = {}  # as each cell's build left it, for others are built after it
    cells: dict[int, Cell] = {}

    def attempt(index: int, call: Callable[[int], None]) -> None:
        try:
            call(index)
        except Exception as error:  # whatever a framework raises for a size that it refuses, or for want of memory
            if isinstance(error, UserError) and len(subjects) == 1:
                raise
            cells[index] = Cell(conditions=subjects[index].conditions, error=one_line(error))
            running.pop(index, None)

    def begin(index: int) -> None:
        running[index] = measurement(subjects[index])
        if (framework := subjects[index].conditions.framework) in instruments.having():
            arithmetic[index] = instruments.load(framework).arithmetic()

    def again(index: int) -> None:
        if index in arithmetic:
            arithmetic[index]()
        running[index].repeat()

    def end(index: int) -> None:
        cells[index] = running[index].found()
        if levels.first_steps_alone(level) and (differing := subjects[index].uneven_steps()):
            cells[index].notes.append(f"CAUTION: these are the first steps alone, and later ones differ: {differing}")

    order = random.Random(SEED)
    for index, subject in enumerate(subjects):
        say(f"building {subject.conditions.name}, {index + 1} of {len(subjects)}")
        attempt(index, begin)
    for repeat in range(repeats):
        for index in order.sample(list(running), len(running)):
            say(f"measuring {subjects[index].conditions.name}, repeat {repeat + 1} of {repeats}")
            attempt(index, again)
    for index in list(running):
        attempt(index, end)
    own = subjects[0].own
    return Probe(
        level=level,
        suite_version=__version__,
        date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        system=subjects[0].system.name,
        machine=asdict(found),
        software=versions(),
        environment=environment(),
        repeats=repeats,
        seconds=subjects[0].seconds,
        noisy=disturbed(),
        implementation=own.told if own else None,
        cells=[cells[index] for index in range(len(subjects))],
    )
