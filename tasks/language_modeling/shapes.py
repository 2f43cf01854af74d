"""What `build` is given in place of a sharded text; see `suite.store.modules.Shaping`."""

from __future__ import annotations

import numpy as np

from tasks.language_modeling import AUDITED
from tasks.language_modeling.shards import SHARDED


def shaped(scale: str) -> dict[str, np.ndarray] | None:
    """The vocabulary's numbers, and as many places as there are audited ones."""
    if scale not in SHARDED:
        return None
    vocabulary = np.arange(SHARDED[scale].vocabulary, dtype=np.uint16)
    return {"vocabulary": vocabulary, "audit_positions": np.arange(AUDITED)}
