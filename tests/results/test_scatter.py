"""Cost against time: what is on the front, what the drawing says, and what it leaves out."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.plots.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from suite.plots.scatter import pareto
from suite.results.scatters import scatters
from tests.results.maker import entry, run

PLACES = st.lists(st.tuples(st.floats(1, 100), st.floats(1, 100)), max_size=20)


@given(PLACES)
def test_front_is_what_nothing_undercuts(places):
    front = set(pareto(places))
    for place in places:
        better = [each for each in places if each != place and each[0] <= place[0] and each[1] <= place[1]]
        assert (place in front) == (not better)


def costing(seconds, cost, **changes):
    return entry(seconds, runs=tuple(run(seconds, cost=cost, seed=at) for at in range(3)), **changes)


def test_dots_stand_where_their_figures_are():
    (drawn,) = scatters([costing(10.0, 4.0), costing(20.0, 2.0), costing(20.0, 4.0)])
    quick, cheap, neither = drawn.dots
    assert (drawn.benchmark, drawn.axis, drawn.left_out) == ("vision/small", "cost in USD", 0)
    assert quick.x < cheap.x == neither.x
    assert quick.y == neither.y < cheap.y  # pixels grow downwards
    assert [dot.front for dot in drawn.dots] == [True, True, False]
    assert all(dot.numbered for dot in drawn.dots)
    assert drawn.front == f"{quick.x},{quick.y} {cheap.x},{quick.y} {cheap.x},{cheap.y}"
    for dot in drawn.dots:
        assert LEFT < dot.x < WIDTH - RIGHT
        assert TOP < dot.y < HEIGHT - BOTTOM
    assert "10.0 s" in quick.text
    assert "$4.00" in quick.text


def test_claims_that_fail_are_drawn_but_not_on_the_front():
    (drawn,) = scatters([costing(10.0, 4.0), costing(1.0, 1.0, verdict="fail")])
    assert [(dot.front, dot.doubtful) for dot in drawn.dots] == [(True, False), (False, True)]
    assert "NOT COMPLIANT" in drawn.dots[1].text


def test_only_results_that_rank_are_on_the_front():
    unlike = [costing(9.0, 3.0, runs_needed=5), costing(8.0, 2.0, own_price=True)]
    (drawn,) = scatters([costing(10.0, 4.0), *unlike])
    assert [dot.front for dot in drawn.dots] == [True, False, False]
    assert drawn.remark == "at a price of the submitter's own: 3"
    unpriced = entry(10.0, runs=(run(cost=None, currency=None),) * 3, own_price=True)
    (drawn,) = scatters([unpriced])
    assert ([dot.front for dot in drawn.dots], drawn.remark) == ([True], "")
    (drawn,) = scatters([costing(10.0, 4.0), unpriced])
    assert (drawn.left_out, drawn.remark) == (1, "")


def test_numbers_do_not_touch_and_those_of_the_front_come_first():
    (drawn,) = scatters([costing(100.0, 1.0), costing(10.1, 4.0), costing(10.0, 4.0), costing(10.2, 4.1)])
    assert [(dot.number, dot.front) for dot in drawn.dots if dot.numbered] == [(1, True), (3, True)]


def test_small_costs_are_written_out():
    (drawn,) = scatters([costing(10.0, 0.00003)])
    assert all(re.fullmatch(r"0\.0000\d+", tick.label) for tick in drawn.y_ticks)


def test_what_has_no_score_or_cost_is_counted():
    (drawn,) = scatters([costing(10.0, 4.0), entry(None), costing(5.0, None)])
    assert ([dot.number for dot in drawn.dots], drawn.left_out) == ([1], 2)


def test_accelerators_stand_for_costs_that_nobody_knows():
    unknown = {"runs": (run(cost=None, currency=None),) * 3}
    (drawn,) = scatters([entry(10.0, accelerators=8, **unknown), entry(5.0, accelerators=64, **unknown)])
    assert drawn.axis == "accelerators"
    assert all(dot.front for dot in drawn.dots)
    assert "64 accelerators" in drawn.dots[1].text
    assert scatters([entry(10.0, accelerators=None, **unknown)]) == []


def test_prices_of_ones_own_are_named_in_the_legend_also_one_of_nothing():
    (drawn,) = scatters([costing(10.0, 4.0), costing(20.0, 2.0, own_price=True), costing(5.0, 0.0, own_price=True)])
    assert ([dot.number for dot in drawn.dots], drawn.left_out) == ([1, 2], 1)
    assert drawn.remark == "at a price of the submitter's own: 2, 3"
    assert [dot.doubtful for dot in drawn.dots] == [False, True]
    assert "OWN PRICE" in drawn.dots[1].text


def test_currencies_are_drawn_apart():
    euros = entry(10.0, runs=(run(10.0, currency="EUR"),) * 3)
    assert [drawn.axis for drawn in scatters([costing(1.0, 1.0), euros])] == ["cost in EUR", "cost in USD"]


@pytest.mark.parametrize("times", [(1e-9, 1e9), (3600.0, 3600.0), (59.0, 61.0), (90000.0, 900000.0), (251.0,)])
def test_axes_have_ticks_at_any_scale(times):
    (drawn,) = scatters([costing(seconds, seconds / 3600) for seconds in times])
    for ticks in (drawn.x_ticks, drawn.y_ticks):
        assert 2 <= len(ticks) <= 12
        assert len({tick.label for tick in ticks}) == len(ticks)
