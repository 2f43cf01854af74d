"""Every benchmark is evaluated early and often enough for convergence.2 to tell who needs too few samples."""

import math

import pytest

from suite import config
from suite.rules import reference
from suite.rules.convergence import counting, of_point

BENCHMARKS = [config.benchmark(task, scale) for task in config.names("task") for scale in config.scales(task)]

# What an evaluation costs there, and so how many of them the way to the target is cut into, stands in docs/results.md.
DEAR = {
    "detection/mini": 9,
    "image_classification/mini": 8,
    "recommendation/mini": 8,
    "reinforcement_learning/mini": 2,
    "reinforcement_learning/small": 4,
}


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda each: each.name)
def test_evaluations_begin_before_the_reference_is_there_and_come_often(benchmark):
    if not reference.path(benchmark).exists():
        pytest.skip("no reference convergence points yet")
    usual = benchmark.hyperparameters.get("global_batch_size", 1)
    found = [point for point in counting(benchmark) if point.global_batch_size == usual]
    assert found, f"too few runs, or of an older recipe: {reference.path(benchmark)}"
    mean = of_point(found[0], benchmark).mean
    assert benchmark.evaluation.first <= 0.75 * mean
    assert benchmark.evaluation.every <= max(math.ceil(mean / DEAR.get(benchmark.name, 20)), usual)
