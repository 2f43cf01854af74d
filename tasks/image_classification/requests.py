"""A test image to be classified."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def request(data: Mapping[str, np.ndarray], index: int) -> dict[str, np.ndarray]:
    """See `suite.store.task.Requesting`."""
    return {"test_images": data["test_images"][index : index + 1]}


def numbered(prediction: Any, index: int) -> Any:
    """See `suite.store.task.Requesting`: a prediction does not say of which example it is."""
    return prediction
