"""What `build` is given in place of pairs in shards; see `suite.store.modules.Shaping`."""

from __future__ import annotations

import numpy as np

from tasks.translation.shards import TEXTS

UNKNOWN = 2  # the type of the piece that stands for what no other covers


def shaped(scale: str) -> dict[str, np.ndarray] | None:
    """A model of the right number of subwords, which are numerals: sentencepiece's `ModelProto`, serialised."""
    if scale not in TEXTS:
        return None
    pieces = [b"".join(_field(str(number))) for number in range(1, TEXTS[scale].subwords)]
    unknown = b"".join((*_field("<unk>"), bytes([3 << 3, UNKNOWN])))  # its field 3, a whole number
    model = b"".join(bytes([1 << 3 | 2, len(each)]) + each for each in [unknown, *pieces])
    return {"subword_model": np.frombuffer(model, np.uint8)}


def _field(text: str) -> tuple[bytes, bytes]:
    """Field 1 of a message, a short text: its number and kind, its length, its bytes."""
    return bytes([1 << 3 | 2, len(text)]), text.encode()
