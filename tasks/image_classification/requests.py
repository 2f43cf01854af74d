"""A test image to be classified."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tasks.image_classification.jpegs import Jpegs


def request(data: Mapping[str, np.ndarray], index: int) -> dict[str, np.ndarray]:
    """See `suite.store.modules.Requesting`."""
    if "test_lengths" in data:
        files = Jpegs(data, "test")
        return {"test_jpegs_0000": files[index], "test_lengths": data["test_lengths"][index : index + 1]}
    return {"test_images": data["test_images"][index : index + 1]}


def numbered(prediction: Any, index: int) -> Any:
    """See `suite.store.modules.Requesting`: a prediction does not say of which example it is."""
    return prediction
