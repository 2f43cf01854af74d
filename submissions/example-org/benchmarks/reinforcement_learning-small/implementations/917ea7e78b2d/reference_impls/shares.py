"""Splits a batch among workers into consecutive parts, by rank, whose lengths differ by at most one."""

from __future__ import annotations

from typing import Any

from suite.errors import UserError
from suite.harness.implementation import Device, unshared


def part(count: int, device: Device) -> slice:
    """The slice of `count` items that the device's worker takes; all of them for a single worker."""
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
    """The number of whole steps of `size` in `count` samples, which `of` names. Raises UserError if there is none."""
    if size > count:
        raise UserError(
            f"hyperparameters.global_batch_size={size} is more than the {count} {of} of the training data: take a "
            "smaller one"
        )
    return count // size
