"""Beam search in numpy around a model's one-token step: what the frameworks' searches on the device must find."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reference_impls.translation.shared import Hyperparameters
from tasks.translation.subwords import BEGIN, END

# log probabilities [rows, V] of what follows the subwords [rows], which continue rows of the step before
Step = Callable[[np.ndarray, np.ndarray], np.ndarray]


def search(step: Step, batch: int, longest: int, hyper: Hyperparameters) -> list[list[int]]:
    """The best translation found for each of `batch` sentences, without END.

    A hypothesis is scored by log probability / length ** `length_penalty`, END counted. A sentence is done when the
    best finished hypothesis scores no less than its live ones do, or at `longest` subwords.
    """
    beam = hyper.beam_size
    live = np.where(np.arange(beam) == 0, 0.0, -1e9) + np.zeros((batch, 1))  # at first all rows are one
    history = np.full((batch, beam, 1), BEGIN)
    parents = np.tile(np.arange(beam), (batch, 1))
    rows = np.arange(batch)[:, None] * beam
    best, done = np.full(batch, -np.inf), np.zeros(batch, bool)
    found: list[list[int]] = [[] for _ in range(batch)]
    for length in range(1, longest + 1):
        logs = step(history[:, :, -1].ravel(), (rows + parents).ravel())
        order = np.argsort(-logs, 1, kind="stable")[:, : beam + 1]
        scores, subwords = np.take_along_axis(logs, order, 1), order.reshape(batch, -1)
        totals = (live[:, :, None] + scores.reshape(batch, beam, -1)).reshape(batch, -1)
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
