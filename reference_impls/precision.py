"""The precisions that the reference implementations train in; an implementation of one's own may know others."""

from __future__ import annotations

from collections.abc import Iterable

from suite.errors import UserError
from suite.harness.implementation import Device, untrained


def written_in(framework: str, device: Device, precisions: Iterable[str]) -> None:
    """Raise UserError where the reference in `framework` does not train in the device's precision."""
    if problem := untrained(f"the reference in {framework}", device, precisions):
        raise UserError(problem)
