"""The most that a machine can do: operations of a matrix product and bytes of a copy, timed in turn with steps."""

from __future__ import annotations

from suite.probe import measuring
from suite.probe.record import Figure
from suite.probe.subject import Subject

PRODUCT, COPY = "product", "copy"  # the names of its figures


class Roof:
    """The highest rates of all looks: `flops` and `bytes` per second."""

    def __init__(self, subject: Subject) -> None:
        instruments, device = subject.instruments, subject.device
        self.product, self.copy = measuring.product(instruments, device), measuring.copy(instruments, device)
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
