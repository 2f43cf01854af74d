"""An evaluation to make bricks of: a model that has learnt a little. What scoring it takes is in no brick."""

from __future__ import annotations

import time
from dataclasses import replace

from suite.errors import BadPrediction
from suite.probe.subject import Subject
from suite.store.task import score

LONGEST_S = 120.0
TIMES = 2


def trained(subject: Subject) -> Subject:
    """The same, of a model trained to the benchmark's first evaluation, or for two minutes.

    One that has learnt nothing translates without an end, sees things everywhere, or falls at once.
    """
    inside, seen = subject.changed(mode="train").inside(), 0
    until = time.monotonic() + LONGEST_S
    while seen < inside.benchmark.evaluation.first and time.monotonic() < until:
        seen = inside.made.train_until(seen + 1).samples
    return replace(subject, state=inside.made.state_dict())


def scoring(subject: Subject) -> float | None:
    """Seconds to score what the task's implementation predicts, the least of two times.

    None where that cannot be scored.
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
