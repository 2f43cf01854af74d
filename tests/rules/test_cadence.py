"""Points tell how often a benchmark is evaluated, for convergence.2 to tell anything, and how far its batch is free."""

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


with_points = pytest.mark.parametrize(
    "benchmark", [each for each in BENCHMARKS if reference.path(each).exists()], ids=lambda each: each.name
)


@with_points
def test_no_batch_size_is_free_that_nobody_could_submit(benchmark):
    largest = max(point.global_batch_size for point in counting(benchmark))
    assert benchmark.free["global_batch_size"].high <= largest  # convergence.4


@with_points
def test_evaluations_begin_before_the_reference_is_there_and_come_often(benchmark):
    usual = benchmark.hyperparameters.get("global_batch_size", 1)
    found = [point for point in counting(benchmark) if point.global_batch_size == usual]
    assert found, f"too few runs, or of an older recipe: {reference.path(benchmark)}"
    mean = of_point(found[0], benchmark).mean
    assert benchmark.evaluation.first <= 0.75 * mean
    assert benchmark.evaluation.every <= max(math.ceil(mean / DEAR.get(benchmark.name, 20)), usual)
