"""The precisions that the reference implementations train in; your own implementation may support others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from suite.errors import UserError
from suite.harness.implementation import Device, untrained

# Initial scale in fp16 of a loss averaged over half a million words; a smaller one would zero rare words' gradients
LOSS_SCALE = np.array(2.0**16, np.float32)


def written_in(framework: str, device: Device, precisions: Iterable[str]) -> None:
    """Raise UserError where the reference in `framework` does not train in the device's precision."""
    if problem := untrained(f"the reference in {framework}", device, precisions):
        raise UserError(problem)
