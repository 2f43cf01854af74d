"""A test sentence to be translated."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import sentencepiece

from tasks.translation.subwords import END


def request(data: Mapping[str, np.ndarray], index: int) -> dict[str, np.ndarray]:
    """See `suite.store.modules.Requesting`. Raises ValueError for a subword that is not in the vocabulary.

    A GPU that is asked for the embedding of such a subword stops answering.
    """
    source = data["test_source"]
    ends = np.flatnonzero(source == END) + 1
    sentence = source[ends[index - 1] if index else 0 : ends[index]]
    known = _vocabulary(data["subword_model"].tobytes())
    if sentence.max() >= known:
        raise ValueError(f"subword {sentence.max()} of a vocabulary of {known}")
    return {"test_source": sentence}


def numbered(prediction: Any, index: int) -> Any:
    """See `suite.store.modules.Requesting`: a prediction does not say of which example it is."""
    return prediction


@lru_cache(maxsize=1)
def _vocabulary(model: bytes) -> int:
    return int(sentencepiece.SentencePieceProcessor(model_proto=model).vocab_size())
