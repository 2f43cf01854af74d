"""What both frameworks' searches share: which sentences are translated together, and their way back to text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np
import sentencepiece

from reference_impls.translation.shared import BUCKETS, CHECKED, POSITIONS, TOGETHER, Network, bucket, lengths
from suite.harness.implementation import Device

STRIDE = 8  # the longest translation is a multiple of it
SEARCH_SHARE, UNKNOWN_GB = 1 / 8, 16  # the search's share of a GPU's memory; what that is if unknown
COUNTED = 2 * BUCKETS[-1]  # the length of sources that room is reckoned for


def longest(source_length: int) -> int:
    """The most subwords of a translation: twice the source's plus ten, to a multiple of STRIDE; POSITIONS at most."""
    return min(-(-(2 * source_length + 10) // STRIDE) * STRIDE, POSITIONS)


def together(hyper: Network, device: Device) -> int:
    """How many sentences are translated together: on a GPU as many as SEARCH_SHARE holds keys and values of."""
    if device.kind == "cpu":
        return TOGETHER["cpu"]
    size = 2 if device.precision in ("bf16", "fp16") else 4
    positions = COUNTED + hyper.beam_size * longest(COUNTED)
    sentence = 2 * hyper.decoder_layers * positions * hyper.d_model * size
    room = SEARCH_SHARE * 1e9 * (device.memory_gb or UNKNOWN_GB)
    return min(max(int(room / sentence), 1), TOGETHER["gpu"])


def questions(rows: np.ndarray, size: int, kind: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches of `size` sentences of similar length, of `rows` [N, L]: their numbers [B] and subwords int32 [B, S].

    On a GPU the subwords of the last batch are padded to `size` with its last sentence.
    """
    by_length = np.argsort(lengths(rows), kind="stable")
    for first in range(0, len(rows), size):
        chosen = by_length[first : first + size]
        missing = size - len(chosen) if kind == "gpu" else 0
        batch = rows[np.pad(chosen, (0, missing), mode="edge")]
        yield chosen, np.ascontiguousarray(batch[:, : bucket(int(lengths(batch).max()), kind)])


class Search(Protocol):
    """The search for the translations of a batch, on the device."""

    def advance(self) -> None:
        """Lengthen all hypotheses by CHECKED subwords."""
        ...

    def done(self) -> np.ndarray:
        """Which of the sentences are done, bool [B]; waits for the device."""
        ...

    def results(self) -> tuple[np.ndarray, np.ndarray]:
        """The translations so far [B, L], and how long they are [B]."""
        ...

    def keep(self, sentences: np.ndarray) -> None:
        """Go on with these sentences alone, int64 [b]."""
        ...


def translations(search: Search, batch: int, source_length: int, kind: str) -> list[list[int]]:
    """The subwords of the best translation of each of `batch` sentences of `source_length`, without END.

    On a CPU sentences are dropped once they are done; on a GPU, where new shapes would take compiling, they are not.
    """
    found: list[list[int]] = [[] for _ in range(batch)]
    numbers, most = np.arange(batch), longest(source_length)
    for length in range(CHECKED[kind], most + 1, CHECKED[kind]):
        search.advance()
        done = search.done() | (length == most)
        if done.all() or (kind == "cpu" and done.mean() > 0.2):
            rows, counts = search.results()
            for i in np.flatnonzero(done):
                found[numbers[i]] = rows[i, : counts[i]].tolist()
            if done.all():
                break
            search.keep(np.flatnonzero(~done))
            numbers = numbers[~done]
    return found


@cache
def processor(subword_model: bytes) -> sentencepiece.SentencePieceProcessor:
    """The processor of a subword model, which joins subwords to text."""
    return sentencepiece.SentencePieceProcessor(model_proto=subword_model)


def translate(
    begin: Callable[[Any], Search], asked: Sequence[tuple[np.ndarray, Any]], subword_model: np.ndarray, kind: str
) -> list[str]:
    """The translation of each sentence of `questions`, as text."""
    subwords = processor(subword_model.tobytes())
    texts = [""] * sum(len(chosen) for chosen, _ in asked)
    for chosen, source in asked:
        batch, length = source.shape
        found = translations(begin(source), batch, length, kind)
        for i, text in zip(chosen, subwords.decode(found), strict=False):
            texts[i] = text
    return texts
