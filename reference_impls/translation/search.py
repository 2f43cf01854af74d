"""Beam search in numpy around a framework's one-token step, so that both frameworks search alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import sentencepiece

from reference_impls.translation.shared import Hyperparameters, padded, sentences
from tasks.translation import BEGIN, END

SENTENCES = 125  # searched together, alike in length


class Step(Protocol):
    """Reads one more subword in each row of a decoder's cache."""

    def __call__(self, subwords: np.ndarray, parents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log probabilities of the K = `beam_size` + 1 likeliest next subwords, best first, and these; each [rows, K].

        Row i continues the row `parents[i]` of the step before with `subwords[i]`.
        """
        ...


Source = TypeVar("Source", bound=Any)  # sentences int32 [B, S], as a framework has them
Begin = Callable[[Source], Step]  # each sentence has `beam_size` rows, neighbours


def questions(source: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The sentences of `source`, those of like length together: their numbers [B], and they int32 [B, S]."""
    rows = sentences(source)
    by_length = np.argsort([len(row) for row in rows], kind="stable")
    for first in range(0, len(rows), SENTENCES):
        chosen = by_length[first : first + SENTENCES]
        yield chosen, padded([rows[i] for i in chosen])


def translate(
    begin: Begin[Source], asked: Sequence[tuple[np.ndarray, Source]], subword_model: np.ndarray, hyper: Hyperparameters
) -> list[str]:
    """The translation of each sentence of `questions`, as text."""
    subwords = sentencepiece.SentencePieceProcessor(model_proto=subword_model.tobytes())
    translations = [""] * sum(len(chosen) for chosen, _ in asked)
    for chosen, batch in asked:
        for i, found in zip(chosen, search(begin(batch), len(chosen), batch.shape[1], hyper), strict=True):
            translations[i] = subwords.decode(found)
    return translations


def search(step: Step, batch: int, source_length: int, hyper: Hyperparameters) -> list[list[int]]:
    """The best translation found for each of `batch` sentences, without END.

    A hypothesis is scored by log probability / length ** `length_penalty`, END counted. A sentence is done when the
    best finished hypothesis scores no less than its live ones do, or at twice the source's length + 10.
    """
    beam = hyper.beam_size
    live = np.where(np.arange(beam) == 0, 0.0, -1e9) + np.zeros((batch, 1))  # at first all rows are one
    history = np.full((batch, beam, 1), BEGIN)
    parents = np.tile(np.arange(beam), (batch, 1))
    rows = np.arange(batch)[:, None] * beam
    best, done = np.full(batch, -np.inf), np.zeros(batch, bool)
    found: list[list[int]] = [[] for _ in range(batch)]
    for length in range(1, 2 * source_length + 11):
        scores, subwords = step(history[:, :, -1].ravel(), (rows + parents).ravel())
        totals = (live[:, :, None] + scores.reshape(batch, beam, -1)).reshape(batch, -1)
        subwords = subwords.reshape(batch, -1)
        ended = np.where(subwords == END, totals, -np.inf)
        finished = ended.max(1) / length**hyper.length_penalty
        for i in np.flatnonzero(~done & (finished > best)):
            best[i], found[i] = finished[i], history[i, ended[i].argmax() // (beam + 1), 1:].tolist()
        chosen = np.argsort(np.where(subwords == END, np.inf, -totals), 1, kind="stable")[:, :beam]
        live = np.take_along_axis(totals, chosen, 1)
        done |= best >= live[:, 0] / length**hyper.length_penalty
        if done.all():
            break
        parents = chosen // (beam + 1)
        history = np.take_along_axis(history, parents[:, :, None], 1)
        history = np.concatenate([history, np.take_along_axis(subwords, chosen, 1)[:, :, None]], 2)
    for i in np.flatnonzero(best == -np.inf):
        found[i] = history[i, 0, 1:].tolist()
    return found
