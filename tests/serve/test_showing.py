"""The page of what a model under load was found to answer."""

from html.parser import HTMLParser

import pytest

from suite.serve.measuring import Measured
from suite.serve.scenarios import Load
from suite.serve.showing import chart, page, remarks


def at(rate: float, latency: float | None) -> Load:
    """Load of so many queries a second, of which 99 % took so many seconds at most; None where some went unanswered."""
    return Load(
        scenario="server", rate=rate, reached=rate, queries=1000, seconds=1.0, bound=0.1, failed=0,
        shed=0 if latency else 10, latencies={"99": latency} if latency else {},
        problems=[] if latency and latency <= 0.1 else ["late"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("loads", "highest", "drawn"),
    [
        ([at(500, 0.02), at(900, 0.2)], 500, True),
        ([at(500, 0.02), at(900, None)], 500, False),
        ([at(900, None), at(500, 0.3)], None, False),
    ],
)
def test_the_latency_is_drawn_against_the_rate_where_two_were_answered(loads, highest, drawn):
    found = Measured(
        benchmark="<b>task</b>", metric="accuracy", trained=0.9, quality=None, unscored="a <b>reason</b>",
        loads=loads, bound=0.1, highest=highest, too_high=900 if highest else 500,
    )  # fmt: skip
    text = page(found, ["told <i>"])
    HTMLParser().feed(text)
    assert "<script src" not in text
    assert "<b>" not in text
    assert "<i>" not in text
    assert "not known (a &lt;b&gt;reason" in text
    assert ("queries a second" in text) == drawn
    assert ("500/s keeps 100 ms" if highest else "no rate keeps 100 ms") in text


def test_large_figures_are_told_in_full():
    found = Measured(
        benchmark="task", metric="accuracy", trained=0.9, quality=None,
        loads=[at(19_999.6, 12.3456)], bound=0.1, highest=12_345.6, too_high=13_000,
    )  # fmt: skip
    text = page(found, [])
    assert all(f">{each}<" in text for each in ("20,000", "12,346"))
    assert "12,346/s keeps 100 ms at the 99th percentile, 13,000/s was not shown to" in text


@pytest.mark.parametrize(
    ("scenario", "changes", "known"),
    [
        ("server", {"shed": 3}, True),  # which a rate that is too high does
        ("single-stream", {"shed": 3}, False),
        ("server", {"failed": 3}, False),
        ("single-stream", {}, True),
    ],
)
def test_where_requests_were_lost_no_rate_is_said_to_break_the_bound(scenario, changes, known):
    lost = at(500, 0.3).model_copy(update={"scenario": scenario, **changes})
    found = Measured(benchmark="task", metric="accuracy", trained=None, quality=None, loads=[lost], bound=0.1)
    assert remarks(found)[0].startswith("no rate keeps" if known else "the highest rate that keeps")


def test_the_bound_is_drawn_where_it_lies():
    loads = [at(500, 0.1), at(900, 0.2)]
    found = Measured(benchmark="task", metric="accuracy", trained=None, quality=None, loads=loads, bound=0.1)
    drawn = chart(found)
    (curve,) = drawn.curves
    assert drawn.target == float(curve.points.split()[0].split(",")[1])  # of the first rate, at the bound itself
    assert drawn.target > curve.last[1]  # pixels count down
    assert drawn.target_value == 100.0
