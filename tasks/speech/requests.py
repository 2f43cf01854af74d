"""A test recording to be written down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def request(data: Mapping[str, np.ndarray], index: int) -> dict[str, np.ndarray]:
    """See `suite.store.modules.Requesting`."""
    frames = data["test_frames"]
    first = int(frames[:index].sum())
    return {
        "test_features": data["test_features"][first : first + int(frames[index])],
        "test_frames": frames[index : index + 1],
    }


def numbered(prediction: Any, index: int) -> Any:
    """See `suite.store.modules.Requesting`: a prediction does not say of which example it is."""
    return prediction
