"""What times say."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.probe import measuring, roof

TIMES = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=60)


def test_slow_first_steps_are_the_warm_up():
    assert measuring.end_of_warm_up([9.0, 5.0, 2.0] + [1.0, 1.1, 0.9] * 8) == 3
    assert measuring.end_of_warm_up([1.0, 1.1, 0.9] * 8) == 0


def test_a_block_begins_with_a_step_off_the_clock(monkeypatch):
    done = []
    workload = SimpleNamespace(ready=lambda steps: done.append(("ready", steps)), run=lambda steps: done.append(steps))
    monkeypatch.setattr(measuring, "timed", lambda call: done.append("timed") or call() or 1.0)
    measuring.block(workload, 5)
    assert done == [("ready", 6), 1, "timed", 5]


@pytest.mark.parametrize(("each", "steps"), [(10.0, 3), (0.5, 4), (1e-3, 50)])
def test_the_warm_up_is_looked_for_in_three_steps_at_least_and_fifty_at_most(each, steps):
    assert measuring.first_times(lambda: each, 2.0) == [each] * steps


@given(TIMES)
def test_half_of_the_steps_remain(times):
    assert 0 <= measuring.end_of_warm_up(times) <= len(times) // 2


@given(TIMES)
def test_an_interval_holds_the_mean_and_nothing_below_0(times):
    low, high = measuring.interval(times)
    if len(times) < 3:
        assert (low, high) == (None, None)
    else:
        mean = np.mean(times)
        assert 0 <= low <= mean * (1 + 1e-9)
        assert high >= mean * (1 - 1e-9)


@given(TIMES)
def test_the_interval_of_a_median_lies_within_the_values(times):
    found = measuring.median(times, "s")
    if len(times) < 3:
        assert (found.low, found.high) == (None, None)
    else:
        ends = min(times), found.low, found.value, found.high, max(times)
        assert all(one <= other * (1 + 1e-9) for one, other in pairwise(ends))


@pytest.mark.parametrize("repeats", [3, 5, 30])
def test_an_interval_covers_the_true_mean_as_often_as_it_says(repeats):
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(1000):
        low, high = measuring.interval(random.normal(10, 1, repeats))
        covered += low <= 10 <= high
    assert 0.93 <= covered / 1000 <= 0.97


def test_one_outlier_does_not_move_jitter_or_drift():
    steady = [1.0, 1.1, 0.9, 1.0, 1.1, 0.9, 1.0]
    assert measuring.jitter([*steady, 50.0]) == pytest.approx(measuring.jitter(steady), rel=0.6)
    assert abs(measuring.drift([*steady, 50.0])) < 0.2
    assert measuring.jitter([3.0]) is None
    assert measuring.jitter(list(np.random.default_rng(0).normal(0, 2, 9999))) == pytest.approx(2, rel=0.05)


def test_drift_is_the_rise_from_first_to_last():
    assert measuring.drift([10.0, 11.0, 12.0, 13.0, 14.0]) == pytest.approx(4 / 12)
    assert measuring.drift([1.0, 2.0]) is None
    many = [10 + index / 10_000 for index in range(20_001)]  # of which a thousand are looked at
    assert measuring.drift(many) == pytest.approx(2 / 11)


def test_steps_fill_the_time():
    assert measuring.steps_for(1.0, [0.1, 0.1, 0.3]) == 10
    assert measuring.steps_for(1.0, [5.0]) == 1
    assert measuring.steps_for(1.0, [1e-9]) == measuring.MOST_STEPS


def test_a_rate_waits_once_for_as_many_as_make_the_wait_little(monkeypatch):
    """On a GPU to launch a product and wait for it takes as long as the product."""
    launch, each, now, runs = 0.004, 0.0005, [0.0], []

    def run(times):
        runs.append(times)
        now[0] += launch + times * each

    for module in (measuring, roof):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    rate = roof.Rate(run, work=2)
    assert rate.now() == pytest.approx(2 * runs[-1] / (launch + runs[-1] * each))
    assert runs == [1, 1, 4]
    assert rate.now(1.0) == pytest.approx(2 * 4 / (launch + 4 * each))


@pytest.mark.parametrize(("at", "least"), [(50, 2), (90, 10), (99, 100)])
def test_a_percentile_is_of_as_many_values_as_one_lies_beyond_it(at, least):
    assert measuring.percentile(range(least - 1), at) is None
    assert measuring.percentile(range(least), at) == pytest.approx(at / 100 * (least - 1))
