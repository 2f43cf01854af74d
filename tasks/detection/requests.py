"""A test image in which to find objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def request(data: Mapping[str, np.ndarray], index: int) -> dict[str, np.ndarray]:
    """See `suite.store.modules.Requesting`."""
    return {"test_images": data["test_images"][index : index + 1]}


def numbered(prediction: Any, index: int) -> Any:
    """See `suite.store.modules.Requesting`: each record of an object says of which image it is."""
    return [{**record, "image_id": index} for record in prediction]
