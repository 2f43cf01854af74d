"""What each framework does for bricks: a module for each, named as conf/framework/ names the framework."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, cast

from suite.bricks.brick import Brick
from suite.bricks.recorded import Recorded
from suite.errors import UserError
from suite.harness import by_framework
from suite.harness.implementation import Device
from suite.probe.subject import Subject


class Runner(Protocol):
    """A brick that can be run. `bytes` is what its tensors take."""

    bytes: int

    def prepare(self, twin: bool = False) -> None:
        """Off the clock: make what the brick is given freshly, as the operator before it would have.

        With other weights if `twin`, so that all but these is in the caches afterwards.
        """
        ...

    def run(self) -> float:
        """Seconds of the brick once, back as well where it has a gradient, until the device has done it."""
        ...

    def done(self) -> None:
        """Off the clock: let go of what `prepare` and `run` made."""
        ...


class Framework(Protocol):
    """A module of this folder.

    `OPERATORS`: the names of those in the closed table.
    `SPREADS_LATE`: on several processors an operation now and then finds its threads on one of them, as it does not
    within a step, and takes twice as long.
    """

    OPERATORS: Collection[str]
    SPREADS_LATE: bool

    def record(self, subject: Subject, network: Callable[[], Any] | None = None) -> Sequence[Recorded]:
        """The calls that a step of the workload takes; of `network`, one's own, where that is given.

        Of models one step, since every batch is alike, of shapes alone where the framework can; of a task's training,
        which its code alone can tell, those of `BATCHES` steps; of its inference those of an evaluation.
        """
        ...

    def runner(self, brick: Brick, device: Device, mode: str, room: int) -> Runner:
        """The brick, built to be run. Raises UserError for one that cannot be, or takes more than `room` bytes."""
        ...

    def tried(self, brick: Brick, device: Device, mode: str, room: int) -> object:
        """Raise UserError where `runner` would give none; nothing is computed."""
        ...

    def listed(self) -> list[str]:
        """The models that the framework's library has."""
        ...


def load(framework: str) -> Framework:
    """The bricks of a framework. Raises UserError for one that has none, or is not installed."""
    return cast(Framework, by_framework.load(__name__, framework, "bricks"))


def runs(framework: Framework, brick: Brick, device: Device, mode: str, room: int) -> bool:
    """Whether the framework's `runner` would give one; nothing is computed."""
    try:
        framework.tried(brick, device, mode, room)
    except UserError:
        return False
    return True
