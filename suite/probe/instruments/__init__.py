"""What each framework offers to look at a workload: one module each, named as the framework is in conf/framework/."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from suite.harness import by_framework
from suite.harness.implementation import Device
from suite.probe.judging import Judged
from suite.probe.kernels.problems import Problem
from suite.probe.record import Conditions
from suite.probe.shadow import Distance
from suite.probe.tracing import Timeline, Tracked, Watched
from suite.probe.workload import Workload


class Instruments(Hashable, Protocol):
    """A module of this folder."""

    def model(self, conditions: Conditions, device: Device, seed: int) -> Workload:
        """A library's model by its name, on synthetic pictures.

        Raises UserError for a name that the library does not have, and for a size that the model refuses.
        """
        ...

    def apart(self) -> AbstractContextManager[None]:
        """Context in which workloads are built and run one operator after the other: no compiler fuses any."""
        ...

    def flops(self, call: Callable[[], object]) -> dict[str, int | None]:
        """Floating-point operations of the matrix products and convolutions that `call` takes, by operator.

        None for an operator that takes some but cannot be counted.
        """
        ...

    def arithmetic(self) -> Callable[[], None]:
        """A function that restores how this process takes products now (tf32 on a GPU): a build changes it for all."""
        ...

    def copy(self, size: int, device: Device) -> Callable[[int], None]:
        """A function that copies `size` bytes within the device's memory, or moves as many, a given number of times."""
        ...

    def called(self, call: Callable[[], object], device: Device) -> Counter[tuple[Problem, str]]:
        """How often `call` takes each matrix product and convolution, and in which precision, by its numbers' type."""
        ...

    def kernel(self, problem: Problem, device: Device) -> Workload:
        """One operation over and over, on noise in the device's precision.

        Raises UserError for a precision, and for an operation, that the framework does not have.
        """
        ...

    def algorithm(self, workload: Workload, device: Device) -> str | None:
        """The algorithm that the library reports for an operation of `kernel`; None if it reports none."""
        ...

    def judged(self, build: Callable[[], Workload], device: Device) -> list[Judged]:
        """Judge each operator of a step of what `build` makes against float64, at its first call with its shapes."""
        ...

    def shadowed(self, build: Callable[[], Workload], device: Device) -> Distance:
        """How far steps of what `build` makes drift from the same steps in float64, after a first step."""
        ...

    def memory(self, build: Callable[[], Workload], device: Device) -> Tracked:
        """The workload that `build` makes, built so that the memory that a step holds can be tracked."""
        ...

    def resized(self, pictures: np.ndarray, size: tuple[int, ...], antialias: bool) -> np.ndarray:
        """Resize pictures uint8 [N, H, W, C] to another height and width, bilinearly, by the framework's library."""
        ...

    def decoded(self, jpeg: bytes, channels: int) -> np.ndarray:
        """A picture uint8 [H, W, C] from a JPEG file."""
        ...

    def timeline(self, watched: Any, steps: int, path: Path) -> Timeline:
        """Write a Chrome trace of steps of what `watch` made: RUN, STEP, PHASE, LAYER, and operators within them."""
        ...

    def watch(self, build: Callable[[], Workload], device: Device) -> Watched:
        """The workload that `build` makes, built to be watched."""
        ...


def having() -> list[str]:
    """The frameworks that have instruments, installed or not."""
    return by_framework.having(__name__)


def load(framework: str) -> Instruments:
    """The instruments of a framework. Raises UserError for one that has none, or is not installed."""
    return cast(Instruments, by_framework.load(__name__, framework, "instruments"))
