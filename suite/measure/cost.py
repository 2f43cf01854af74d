"""Money: price times time."""

from __future__ import annotations

from suite.config.models import System
from suite.measure.machine import Machine


def price_per_hour(system: System, machine: Machine) -> float | None:
    """The price of the whole system per hour, in the currency of `system.price`; None if not known.

    `machine` is one of its nodes.
    """
    if system.price_per_hour is not None:
        return system.price_per_hour * system.nodes
    each = system.price_per_cpu_hour
    return each * machine.logical_cpus * system.nodes if each is not None else None


def cost(price: float | None, seconds: float) -> float | None:
    """What `seconds` cost at `price` per hour; None if the price is not known."""
    return price * seconds / 3600 if price is not None else None
