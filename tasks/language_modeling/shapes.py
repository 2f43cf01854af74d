"""What `build` is given of a sharded text without its shards; see `suite.store.modules.Shaping`."""

from __future__ import annotations

import numpy as np

from tasks.language_modeling.shards import SHARDED


def shaped(scale: str) -> dict[str, np.ndarray] | None:
    """The vocabulary's numbers."""
    return {"vocabulary": np.arange(SHARDED[scale].vocabulary, dtype=np.uint16)} if scale in SHARDED else None
