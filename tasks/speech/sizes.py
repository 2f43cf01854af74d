"""Recordings of one length, in frames of features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def sized(size: int, data: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """See `suite.store.modules.Sizing`: as many recordings as there were, cut from the frames of all."""
    arrays = {}
    for split in ("train", "test"):
        features, recordings = data[f"{split}_features"], len(data[f"{split}_frames"])
        arrays[f"{split}_features"] = np.resize(features, (recordings * size, features.shape[1]))
        arrays[f"{split}_frames"] = np.full(recordings, size, np.int32)
    return arrays, {}
