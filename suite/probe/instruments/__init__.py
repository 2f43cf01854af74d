"""What each framework offers to look at a workload: a module for each, named as conf/framework/ names the framework."""

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
        """Workloads built and run within run one operator after the other: nothing is joined by a compiler."""
        ...

    def flops(self, call: Callable[[], object]) -> dict[str, int | None]:
        """Floating-point operations of the matrix products and convolutions that `call` takes, by operator.

        None of an operator that takes such and cannot be counted.
        """
        ...

    def arithmetic(self) -> Callable[[], None]:
        """What sets how this process takes products, tf32 on a GPU, back to as it is now: a build sets it for all."""
        ...

    def copy(self, size: int, device: Device) -> Callable[[int], None]:
        """Copies so many bytes from place to place in the device's memory, or moves as many, so many times."""
        ...

    def called(self, call: Callable[[], object], device: Device) -> Counter[tuple[Problem, str]]:
        """How often `call` takes each matrix product and convolution, in which precision: by its numbers' type."""
        ...

    def kernel(self, problem: Problem, device: Device) -> Workload:
        """One operation over and over, on noise in the device's precision.

        Raises UserError for a precision, and for an operation, that the framework does not have.
        """
        ...

    def algorithm(self, workload: Workload, device: Device) -> str | None:
        """How the library does an operation of `kernel`, as it tells; None where it does not."""
        ...

    def judged(self, build: Callable[[], Workload], device: Device) -> list[Judged]:
        """Each operator of a step of what `build` makes, as it is first called with its shapes, held to float64."""
        ...

    def shadowed(self, build: Callable[[], Workload], device: Device) -> Distance:
        """How far steps of what `build` makes come from the same steps in float64; one step is taken before them."""
        ...

    def memory(self, build: Callable[[], Workload], device: Device) -> Tracked:
        """What `build` makes, built so that what a step of it holds in memory can be told."""
        ...

    def resized(self, pictures: np.ndarray, size: tuple[int, ...], antialias: bool) -> np.ndarray:
        """Pictures uint8 [N, H, W, C] made another height and width, bilinearly, by the framework's own library."""
        ...

    def decoded(self, jpeg: bytes, channels: int) -> np.ndarray:
        """A picture uint8 [H, W, C] from a JPEG file."""
        ...

    def timeline(self, watched: Any, steps: int, path: Path) -> Timeline:
        """Write a Chrome trace of steps of what `watch` made: RUN, STEP, PHASE, LAYER, and operators within them."""
        ...

    def watch(self, build: Callable[[], Workload], device: Device) -> Watched:
        """What `build` makes, built to be watched."""
        ...


def having() -> list[str]:
    """The frameworks that have instruments, installed or not."""
    return by_framework.having(__name__)


def load(framework: str) -> Instruments:
    """The instruments of a framework. Raises UserError for one that has none, or is not installed."""
    return cast(Instruments, by_framework.load(__name__, framework, "instruments"))
