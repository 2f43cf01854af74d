"""The precisions that the reference implementations train in; an implementation of one's own may know others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from suite.errors import UserError
from suite.harness.implementation import Device, untrained

# Of a loss in fp16 that is a mean over half a million words: with less the rare words' gradients would be zeros there
LOSS_SCALE = np.array(2.0**16, np.float32)


def written_in(framework: str, device: Device, precisions: Iterable[str]) -> None:
    """Raise UserError where the reference in `framework` does not train in the device's precision."""
    if problem := untrained(f"the reference in {framework}", device, precisions):
        raise UserError(problem)
