"""Segments of another length, in words: how far gradients go, and how far the pointer looks back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def sized(size: int, data: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """See `suite.store.modules.Sizing`: a batch keeps its number of words, in fewer streams or sequences if longer.

    That number must be a multiple of `size`, or the implementation refuses it.
    """
    return {}, {"sequence_length" if "begin_token" in data else "segment_length": size}
