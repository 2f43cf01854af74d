"""Windows of histories of another length, in items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def sized(size: int, data: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """See `suite.store.modules.Sizing`: windows are padded to `size`, and histories cut into windows of it."""
    return {}, {"lengths": [size]}
