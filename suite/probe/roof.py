"""The most that a machine can do: operations of a matrix product and bytes of a copy, timed in turn with steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

from suite.harness.implementation import Device
from suite.probe import measuring
from suite.probe.instruments import Instruments
from suite.probe.kernels.problems import MatrixProduct
from suite.probe.record import Figure
from suite.probe.subject import Subject

PRODUCT, COPY = "product", "copy"  # the names of its figures
MATRIX = 2048  # rows of the matrix product that stands in for an unknown peak
LEAST_LOOK = 0.02  # seconds of work at each look
COPIED = 256 << 20  # bytes, more than caches hold


class Rate:
    """Work that is timed in turn with what is compared to it, so that the machine disturbs both alike.

    Each look repeats the work so often that waiting for the device takes little of the time.
    """

    def __init__(self, run: Callable[[int], None], work: float) -> None:
        """`run` does the work a given number of times and waits only for the last; `work` is the amount of each."""
        self.run, self.work = run, work
        run(1)
        self.times = measuring.steps_for(LEAST_LOOK, [measuring.timed(lambda: run(1))])

    def now(self, seconds: float = 0) -> float:
        """Work per second, repeated for about `seconds`, at least for about LEAST_LOOK."""
        start, times, spent = time.perf_counter(), 0, 0.0
        while not times or spent < seconds:
            self.run(self.times)
            times, spent = times + self.times, time.perf_counter() - start
        return self.work * times / spent


@cache
def product(instruments: Instruments, device: Device) -> Rate:
    """FLOP/s of a product of MATRIX x MATRIX matrices in the device's precision. Raises UserError as `kernel` does."""
    problem = MatrixProduct(MATRIX, MATRIX, MATRIX)
    return Rate(instruments.kernel(problem, device).run, problem.flops)


@cache
def copy(instruments: Instruments, device: Device) -> Rate:
    """Bytes/s of a copy in the device's memory, counting those read and those written."""
    return Rate(instruments.copy(COPIED, device), 2 * COPIED)


class Roof:
    """The highest rates of all looks: `flops` and `bytes` per second."""

    def __init__(self, subject: Subject) -> None:
        instruments, device = subject.instruments, subject.device
        self.product, self.copy = product(instruments, device), copy(instruments, device)
        self.flops, self.bytes = self.product.now(), self.copy.now()

    def look(self) -> None:
        """Time both once more."""
        self.flops = max(self.flops, self.product.now())
        self.bytes = max(self.bytes, self.copy.now())

    @property
    def balance(self) -> float:
        """Operations that a product takes while a copy moves a byte."""
        return self.flops / self.bytes

    def figures(self) -> dict[str, Figure]:
        """The rates and their balance, as figures of a cell."""
        return {
            PRODUCT: Figure(value=self.flops / 1e9, unit="GFLOP/s"),
            COPY: Figure(value=self.bytes / 1e9, unit="GB/s"),
            "balance": Figure(value=self.balance, unit="FLOP/B"),
        }
