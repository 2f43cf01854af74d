"""Record and run bricks: a module for each framework, named as conf/framework/ names it."""

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
    """A brick that can be run. `bytes` is the memory that its tensors take."""

    bytes: int

    def prepare(self, twin: bool = False) -> None:
        """Untimed: make the brick's fresh inputs, as the operator before it would.

        With `twin` the next run uses a copy of the weights, which brings everything but the weights into the caches.
        """
        ...

    def run(self) -> float:
        """Run the brick once, with its backward pass if it has a gradient; return seconds until the device is done."""
        ...

    def done(self) -> None:
        """Untimed: release what `prepare` and `run` made."""
        ...


class Framework(Protocol):
    """A module of this folder.

    `OPERATORS`: the names of the operators in the closed table.
    `SPREADS_LATE`: on several processors a brick's threads now and then start on the same one, unlike within a step,
    and it takes twice as long.
    """

    OPERATORS: Collection[str]
    SPREADS_LATE: bool

    def record(self, subject: Subject, network: Callable[[], Any] | None = None) -> Sequence[Recorded]:
        """Record the calls of the workload's steps, or of `network`, the user's own, if that is given.

        One step of a model, whose batches are all alike, from shapes alone where the framework can; `BATCHES` steps of
        a task's training, whose batches may differ; one evaluation of a task's inference.
        """
        ...

    def runner(self, brick: Brick, device: Device, mode: str, room: int) -> Runner:
        """Build the brick. Raises UserError if it cannot be run or takes more than `room` bytes."""
        ...

    def tried(self, brick: Brick, device: Device, mode: str, room: int) -> object:
        """Raise UserError if the brick's shapes alone show that `runner` cannot build it; nothing is computed."""
        ...

    def listed(self) -> list[str]:
        """The names of the models in the framework's library."""
        ...


def load(framework: str) -> Framework:
    """Load a framework's module. Raises UserError if there is none or the framework is not installed."""
    return cast(Framework, by_framework.load(__name__, framework, "bricks"))


def runs(framework: Framework, brick: Brick, device: Device, mode: str, room: int) -> bool:
    """Whether the brick passes the framework's `tried`; nothing is computed."""
    try:
        framework.tried(brick, device, mode, room)
    except UserError:
        return False
    return True
