"""What the scoring of an evaluation takes, which is the task's own code and so in no brick."""

from __future__ import annotations

import time

from suite.errors import BadPrediction
from suite.probe.subject import Subject
from suite.store.task import score

TIMES = 2


def seconds(subject: Subject) -> float | None:
    """Seconds to score what the task's implementation predicts untrained, the least of two times.

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
