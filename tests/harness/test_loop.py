"""When evaluations are due."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.config import benchmark
from suite.harness.loop import due

MINI = benchmark("image_classification", "mini").model_copy(update={"budget_samples": 10_500})


@pytest.mark.parametrize(
    ("samples", "expected"),
    [(0, 4000), (3999, 4000), (4000, 5000), (4001, 5000), (9999, 10_000), (10_000, 10_500)],
)
def test_evaluations_follow_the_cadence_and_end_with_the_budget(samples, expected):
    assert due(MINI, samples) == expected


@given(st.integers(0, 10_499))
def test_the_next_evaluation_lies_ahead(samples):
    assert samples < due(MINI, samples) <= MINI.budget_samples
