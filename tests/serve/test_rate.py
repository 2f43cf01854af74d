"""The search for the highest rate that keeps a bound."""

from concurrent.futures import Future
from itertools import count
from types import SimpleNamespace

import pytest

from suite.serve.measuring import measure
from suite.serve.options import parse
from suite.serve.rate import WITHIN, highest, offline, stream
from suite.serve.scenarios import Load
from suite.serve.showing import remarks

ALONE = 400.0  # a second, of requests one after another


def search(kept, first=5000.0):
    """The search from `first` a second on, of a model that keeps the bound at these rates."""

    def load(rate):
        return Load(
            scenario="server", rate=rate, reached=rate, queries=1000, seconds=1.0, latencies={}, bound=0.1, shed=0,
            failed=0, problems=[] if kept(rate) else ["late"],
        )  # fmt: skip

    return highest(load, first, ALONE)


@pytest.mark.parametrize("most", [50.0, 900.0, 123_456.0])
def test_the_highest_is_between_two_that_were_tried(most):
    found = search(lambda rate: rate <= most)
    assert found.kept <= most < found.broken
    assert found.broken / found.kept <= WITHIN


def test_what_disturbs_one_load_does_not_end_the_search():
    disturbed = iter([True])
    found = search(lambda rate: rate <= 9000 and not next(disturbed, False), first=1000.0)
    assert found.kept <= 9000 < found.broken <= found.kept * WITHIN
    rates = [load.rate for load in found.loads]
    assert rates.count(1000.0) == rates.count(found.broken) == 2


def test_where_no_rate_keeps_the_bound_it_ends_where_requests_hardly_meet():
    found = search(lambda rate: False)
    assert found.kept is None
    rates = [load.rate for load in found.loads]
    assert found.broken == min(rates) < ALONE / 8
    assert sum(1000 / rate for rate in rates) < 2 * 1000 / (ALONE / 20)  # seconds, since a load has 1,000 queries


def test_a_rate_that_is_low_to_begin_with_is_tried_once():
    assert [load.rate for load in search(lambda rate: False, first=1.0).loads] == [1.0]


def test_a_request_that_failed_ends_the_search_and_is_no_rate_that_is_too_high():
    def load(rate):
        return Load(
            scenario="server", rate=rate, reached=None, queries=1000, seconds=1.0, latencies={}, bound=0.1, shed=0,
            failed=1000, problems=["1000 of its samples failed"],
        )  # fmt: skip

    found = highest(load, 5000.0, ALONE)
    assert (found.kept, found.broken, len(found.loads)) == (None, None, 1)


def test_no_rate_is_looked_for_where_requests_fail():
    asked = count()

    def submit(index, wait=False):
        future = Future()
        if next(asked) < 4:  # whose quality is taken
            future.set_result(0)
        else:
            future.set_exception(OSError("reset"))
        return future

    benchmark = SimpleNamespace(name="task", metric="accuracy")
    examples = SimpleNamespace(plan=SimpleNamespace(benchmark=benchmark), count=4, trained=None, quality=len)
    wanted = parse({"scenario": "server", "seconds": "0.01"})
    found = measure(wanted, examples, SimpleNamespace(submit=submit), lambda text: None)
    assert [load.scenario for load in found.loads if load.failed] == ["single-stream", "offline"]
    assert (found.highest, found.too_high) == (None, None)
    assert "is not known: requests were not answered" in remarks(found)[0]


def test_a_stream_lasts_for_as_long_as_is_asked():
    """Of queries that take half a millisecond, where LoadGen expects one of a millisecond."""
    asked = []

    def load(expected):
        asked.append(expected)
        queries = round(10 / (expected or 1e-3))
        problems = [] if queries * 5e-4 >= 10 else ["Decrease the expected latency"]
        return Load(
            scenario="single-stream", rate=None, reached=2000.0, queries=queries, seconds=queries * 5e-4, latencies={},
            bound=None, shed=0, failed=0, problems=problems,
        )  # fmt: skip

    assert stream(load, 10.0).valid
    assert asked == [None, pytest.approx(5e-4)]


@pytest.mark.parametrize("lost", ["shed", "failed"])
def test_a_stream_that_was_not_answered_is_not_tried_again(lost):
    asked = []

    def load(expected):
        asked.append(expected)
        counts = {"shed": 0, "failed": 0, lost: 3}
        return Load(
            scenario="single-stream", rate=None, reached=2.0, queries=100, seconds=0.5, latencies={}, bound=None,
            problems=[f"3 of its samples {lost}"], **counts,
        )  # fmt: skip

    assert not stream(load, 10.0).valid
    assert asked == [None]


def test_all_samples_at_once_are_as_many_as_the_rate_they_reach_needs():
    asked = []

    def load(rate):
        asked.append(rate)
        return Load(
            scenario="offline", rate=rate, reached=100.0, queries=1, seconds=1.0, latencies={}, bound=None, shed=0,
            failed=0, problems=[] if rate >= 100 else ["Increase expected QPS"],
        )  # fmt: skip

    assert offline(load, 10.0).valid
    assert asked == [10.0, 100.0]
