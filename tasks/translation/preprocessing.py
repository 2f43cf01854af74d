"""Test sentences that come to the subword model in other ways: case, punctuation, Unicode, pieces drawn at random."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from tasks.translation.subwords import END

_PUNCTUATION = re.compile(r"\s*([.,;:!?()\"'])\s*")


def alterations(
    scale: str, files: Path, data: Mapping[str, np.ndarray]
) -> dict[str, Callable[[], dict[str, np.ndarray]]]:
    """See `suite.store.modules.Altering`."""
    subwords = sentencepiece.SentencePieceProcessor(model_proto=data["subword_model"].tobytes())
    ends = np.flatnonzero(data["test_source"] == END) + 1
    sentences = [subwords.decode(each[:-1].tolist()) for each in np.split(data["test_source"], ends[:-1])]

    def of(alter: Callable[[str], str], **options: Any) -> dict[str, np.ndarray]:
        encoded = [subwords.encode(alter(each), **options) for each in sentences]
        return {"test_source": np.concatenate([np.array([*ids, END], np.uint16) for ids in encoded])}

    return {
        "lower case": partial(of, str.lower),
        "upper case": partial(of, str.upper),
        "first letter lower": partial(of, lambda text: text[:1].lower() + text[1:]),
        "blanks around punctuation": partial(of, lambda text: " ".join(_PUNCTUATION.sub(r" \1 ", text).split())),
        "without the last full stop": partial(of, lambda text: text.removesuffix(".")),
        "letters and accents apart (NFD)": partial(of, partial(unicodedata.normalize, "NFD")),
        "a full stop more": partial(of, lambda text: f"{text} ."),
        "letter by letter": partial(of, lambda text: text, enable_sampling=True, alpha=1.0),
    }
