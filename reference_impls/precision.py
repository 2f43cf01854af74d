"""The precisions that the reference implementations train in; an implementation of one's own may know others."""

from __future__ import annotations

from collections.abc import Iterable

from suite.errors import UserError
from suite.harness.implementation import Device


def written_in(framework: str, device: Device, precisions: Iterable[str]) -> None:
    """Raise UserError where the reference in `framework` does not train in the device's precision."""
    if device.precision not in precisions:
        written = ", ".join(precisions)
        raise UserError(f"precision={device.precision}: the reference in {framework} trains in {written}")
    if device.precision == "tf32" and device.kind != "gpu":
        raise UserError("precision=tf32 is arithmetic of GPUs: on processors take fp32")
