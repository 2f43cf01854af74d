"""The cadence that the submitter of a run in the open division chose: when it is evaluated, and its budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from suite.config.models import Benchmark, Evaluation
from suite.record.parsing import whole

MOST = 10**15  # samples
FORM = "first, every and budget_samples, whole numbers from 1"


def cadence(benchmark: Mapping[str, Any]) -> dict[str, Any]:
    """The first evaluation, the interval between two and the budget, in samples, of a configured benchmark."""
    evaluation = benchmark.get("evaluation")
    return {
        **(evaluation if isinstance(evaluation, Mapping) else {}),
        "budget_samples": benchmark.get("budget_samples"),
    }


def is_one(found: Mapping[str, Any]) -> bool:
    """Whether it has the form of a cadence."""
    sound = all(whole(value) and value <= MOST for value in found.values())
    return sound and found.keys() == {"first", "every", "budget_samples"}


def evaluated_when(benchmark: Benchmark, configured: Mapping[str, Any]) -> Benchmark:
    """`benchmark` with the cadence of the `configured` benchmark, where that has a valid one."""
    found = cadence(configured)
    if not is_one(found):
        return benchmark
    evaluation = Evaluation(first=found["first"], every=found["every"])
    return benchmark.model_copy(update={"evaluation": evaluation, "budget_samples": found["budget_samples"]})
