"""How a batch is shared out among workers: in parts of equal length, or of one more, in the order of the ranks."""

from __future__ import annotations

from typing import Any

from suite.errors import UserError
from suite.harness.implementation import Device, unshared


def part(count: int, device: Device) -> slice:
    """Which of so many the device's worker takes; all of them for a single worker."""
    least, more = divmod(count, device.world_size)
    first = device.rank * least + min(device.rank, more)
    return slice(first, first + least + (device.rank < more))


def share(array: Any, device: Device, axis: int = 0) -> Any:
    """The part of `array` along `axis` that the device's worker takes; a view."""
    return array[(slice(None),) * axis + (part(array.shape[axis], device),)]


def require(device: Device, most: int, of: str) -> None:
    """Raise UserError where there are more workers than the `most` parts that a step has."""
    if problem := unshared(device.world_size, most, of):
        raise UserError(problem)


def steps(count: int, size: int, of: str) -> int:
    """How many steps of `size` the `count` `of` the training data make. Raises UserError where they make none."""
    if size > count:
        raise UserError(
            f"hyperparameters.global_batch_size={size} is more than the {count} {of} of the training data: take a "
            "smaller one"
        )
    return count // size
