"""Prepare the bricks of an evaluation: train the model a little, and time the scoring, which is in no brick."""

from __future__ import annotations

import time
from dataclasses import replace

from suite.errors import BadPrediction
from suite.probe.subject import Subject
from suite.store.task import score

LONGEST_S = 120.0
TIMES = 2


def trained(subject: Subject) -> Subject:
    """The subject with a model trained up to the benchmark's first evaluation, for two minutes at most.

    An untrained model translates without an end, detects objects everywhere, or falls at once.
    """
    inside, seen = subject.changed(mode="train").inside(), 0
    until = time.monotonic() + LONGEST_S
    while seen < inside.benchmark.evaluation.first and time.monotonic() < until:
        seen = inside.made.train_until(seen + 1).samples
    return replace(subject, state=inside.made.state_dict())


def scoring(subject: Subject) -> float | None:
    """Seconds to score the predictions of the task's implementation, the lesser of two times.

    None if they cannot be scored.
    """
    inside = subject.inside()
    predictions, found = inside.made.predict(inside.data), list[float]()
    for _ in range(TIMES):
        began = time.perf_counter()
        try:
            score(inside.benchmark, inside.task, predictions, inside.data)
        except BadPrediction:
            return None
        found.append(time.perf_counter() - began)
    return min(found)
