"""The test text with its words written differently: case, numbers, ends of lines. The altered text is scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from tasks.language_modeling import EOS

UNKNOWN = "<unk>"  # WikiText's own word for those it left out


def alterations(
    scale: str, files: Path, data: Mapping[str, np.ndarray]
) -> dict[str, Callable[[], dict[str, np.ndarray]]]:
    """See `suite.store.modules.Altering`; none for a text from a grammar, which has no other words."""
    vocabulary = data["vocabulary"].tolist()
    number = {word: at for at, word in enumerate(vocabulary)}
    if UNKNOWN not in number:
        return {}

    def of(alter: Callable[[str], str]) -> dict[str, np.ndarray]:
        """Each word altered; UNKNOWN where the vocabulary has no such word."""
        table = np.array([number.get(alter(word), number[UNKNOWN]) for word in vocabulary], np.uint16)
        return {"test_tokens": table[data["test_tokens"]]}

    return {
        "lower case": partial(of, lambda word: word if word in (EOS, UNKNOWN) else word.lower()),
        "numbers not known": partial(of, lambda word: UNKNOWN if word.isdigit() else word),
        "ends of lines not marked": partial(of, lambda word: UNKNOWN if word == EOS else word),
    }
