import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.record.scoring import mean_of, olympic_mean


def test_drops_the_fastest_and_the_slowest():
    assert olympic_mean([5.0, 1.0, 3.0, 2.0, 100.0]) == 10 / 3


def test_one_run_that_did_not_converge_is_the_dropped_slowest():
    assert olympic_mean([5.0, None, 1.0, 3.0]) == 4.0


def test_a_second_run_that_did_not_converge_leaves_no_score():
    assert olympic_mean([5.0, None, 1.0, None, 2.0]) is None


def test_fewer_than_three_runs_have_nothing_to_drop():
    assert olympic_mean([4.0]) == 4.0
    assert olympic_mean([4.0, 2.0]) == 3.0
    assert olympic_mean([4.0, None]) is None
    assert olympic_mean([]) is None


@given(st.lists(st.floats(0, 1e6), min_size=3))
def test_is_between_the_fastest_and_the_slowest(times):
    score = olympic_mean(times)
    assert score is not None
    assert min(times) <= score * (1 + 1e-9)
    assert score <= max(times) * (1 + 1e-9)


@pytest.mark.parametrize(("runs", "said"), [(1, "1 run"), (2, "mean of 2 runs"), (3, "olympic mean of 3 runs")])
def test_a_plain_mean_is_not_called_olympic(runs, said):
    assert mean_of(runs) == said
