"""Sentences of one length, in subwords."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from suite.errors import UserError
from tasks.translation.subwords import END

TEXTS = ("train_source", "train_target", "test_source")
PAIRS = "train_pairs_"  # in the names of the arrays that are shards


def sized(size: int, data: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """See `suite.store.modules.Sizing`: as many sentences as there were, cut from the subwords of all; END counts."""
    if size < 2:
        raise UserError(f"size={size}: a sentence has 2 subwords at least, the last of which ends it")
    shards = {name: array for name, array in data.items() if name.startswith(PAIRS)}
    cut = {name: _cut(data[name], size) for name in TEXTS if name in data}
    cut |= {name: _cut(array[: np.flatnonzero(array)[-1] + 1], size) for name, array in shards.items()}
    return cut, {"max_sequence_length": max(-(-size // 8) * 8, 16)} if shards else {}


def _cut(text: np.ndarray, size: int) -> np.ndarray:
    ends = text == END
    words = np.resize(text[~ends], (int(ends.sum()), size - 1))
    return np.pad(words, ((0, 0), (0, 1)), constant_values=END).reshape(-1)
