"""A test sentence to be translated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tasks.translation.subwords import END


def request(data: Mapping[str, np.ndarray], index: int) -> dict[str, np.ndarray]:
    """See `suite.store.modules.Requesting`."""
    source = data["test_source"]
    ends = np.flatnonzero(source == END) + 1
    return {"test_source": source[ends[index - 1] if index else 0 : ends[index]]}


def numbered(prediction: Any, index: int) -> Any:
    """See `suite.store.modules.Requesting`: a prediction does not say of which example it is."""
    return prediction
