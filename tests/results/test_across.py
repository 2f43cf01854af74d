"""A machine in one figure: geometric means over benchmarks, and performance profiles, by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from suite.plots.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Scale
from suite.plots.profiles import profiles
from suite.plots.scatter import LogScale
from suite.results import page
from suite.results.across import of_comparisons, profile, standings
from suite.results.comparison import compare, format_interval, ratio, ratio_interval
from suite.results.entry import Entry, remarks
from suite.results.scatters import scatters
from tests.results.maker import entry, run

A, B = "example-org: a", "example-org: b"


def result(system: str, benchmark: str, seconds: float, **changes) -> Entry:
    runs = tuple(run(seconds * factor) for factor in (0.98, 1.0, 1.02))
    made = entry(seconds, system=system, benchmark=benchmark, runs=runs, **changes)
    return replace(made, seconds=seconds)


def test_the_geometric_mean_of_ratios_and_its_interval():
    pairs = [([10.0] * 3, [20.0] * 3), ([8.0] * 3, [1.0] * 3)]
    assert ratio(pairs) == pytest.approx(math.sqrt(2 / 8))
    assert ratio_interval(*pairs) == (pytest.approx(0.5), pytest.approx(0.5))
    assert ratio([(b, a) for a, b in pairs]) == pytest.approx(2.0)  # whichever is the reference
    spread = [([9.0, 10.0, 11.0, 10.5], [19.0, 20.0, 22.0, 20.0]), ([8.0, 8.2, 7.9, 8.0], [1.0, 1.1, 1.0, 0.9])]
    low, high = ratio_interval(*spread) or (math.nan, math.nan)
    assert low < ratio(spread) < high
    assert ratio_interval(([1.0, 2.0], [1.0, 2.0])) is None


def test_ends_of_an_interval_are_told_from_1():
    assert format_interval((1.0004, 1.0234)) == "1.0004 to 1.02"
    assert format_interval((0.98123, 1.0)) == "0.981 to 1"


def test_systems_are_held_to_the_reference_over_what_both_have():
    entries = [
        result("a", "one/small", 10.0),
        result("a", "two/small", 40.0),
        result("a", "three/small", 1.0),
        result("b", "one/small", 5.0),
        result("b", "one/small", 7.0),  # not its fastest
        result("b", "one/small", 1.0, verdict="fail"),
        result("b", "one/small", 1.0, runs_needed=5),  # of fewer runs
        result("b", "two/small", 10.0),
        result("b", "four/small", 1.0),
    ]
    (b,) = standings(entries, page.system_of, A)
    time = next(each for each in b.figures if each.name == "time to quality")
    assert (b.system, b.missing) == (B, ("four/small", "three/small"))
    assert time.over == ("one/small", "two/small")
    assert time.ratio == pytest.approx(math.sqrt(0.5 * 0.25))
    assert time.says == "B is lower"


def test_what_differs_in_division_or_data_is_no_rival():
    entries = [
        result("a", "one/small", 10.0),
        result("b", "one/small", 20.0),
        result("b", "one/small", 1.0, division="open"),
        result("b", "one/small", 2.0, part=0.5),
    ]
    (b,) = standings(entries, page.system_of, A)
    assert (b.figures[0].ratio, b.missing) == (
        pytest.approx(2.0),
        ("one/small, 0.5 of the data", "one/small, division open"),
    )
    assert page.ratios(entries, A) == [1.0, 0.5, None, None]
    assert [each.benchmark for each in scatters(entries)] == [
        "one/small",
        "one/small, 0.5 of the data",
        "one/small, division open",
    ]
    assert remarks(entries[3]) == ["0.5 OF THE DATA"]


def test_results_of_other_rules_are_no_rivals():
    entries = [result("a", "one", 10.0, ruleset="mlperf-4.1"), result("b", "one", 5.0, ruleset="mlperf-5.1")]
    (b,) = standings(entries, page.system_of, A)
    assert (b.figures[0].ratio, b.missing) == (None, ("one, rules mlperf-4.1", "one, rules mlperf-5.1"))


def test_times_are_multiplied_as_scores_are():
    entries = [result("a", "one/small", 10.0), result("b", "one/small", 11.0, normalisation=1.1)]
    entries[1] = replace(entries[1], runs=entries[0].runs)
    (b,) = standings(entries, page.system_of, A)
    assert b.figures[0].ratio == pytest.approx(1.1)
    (made,) = compare(entries[:1], entries[1:])
    assert (made.figures[0].ratio, made.figures[1].ratio) == (pytest.approx(1.1), pytest.approx(1.0))
    assert made.b.remarks == ("TIMES MULTIPLIED BY 1.1, as its score is",)


def test_nobody_gains_by_a_lost_run():
    times = (5.0, 10.0, 11.0, 12.0, 30.0)
    whole = entry(11.0, system="a", benchmark="one/small", runs=tuple(map(run, times)))
    lost = replace(whole, system="b", runs=(*map(run, times[:-1]), run(40.0, reached=False)))
    (b,) = standings([whole, lost], page.system_of, A)
    assert [each.ratio for each in b.figures] == pytest.approx([1.0] * 3)
    assert page.ratios([whole, lost], A) == [1.0, 1.0]


def test_as_many_may_be_lost_as_the_round_drops():
    times = [float(at) for at in range(10, 50)]
    whole = entry(30.0, system="a", benchmark="unet3d", ruleset="mlperf-5.1", runs=tuple(map(run, times)))
    lost = replace(whole, system="b", runs=(*map(run, times[:-2]), *(run(reached=False),) * 2))
    (b,) = standings([whole, lost], page.system_of, A)
    assert b.figures[0].ratio == pytest.approx(1.0)


def test_a_near_tie_is_called_a_tie_and_one_run_tells_nothing():
    near = standings([result("a", "one/small", 10.0), result("b", "one/small", 10.05)], page.system_of, A)
    assert {each.says for each in near[0].figures} == {"tie: no difference is shown"}
    single = replace(result("b", "one/small", 5.0), runs=(run(5.0),), runs_needed=1)
    (held,) = standings([result("a", "one/small", 10.0), single], page.system_of, A)
    assert held.figures[0].interval is None
    assert "too few runs" in held.figures[0].says
    (none,) = standings([result("a", "one/small", 10.0), result("b", "two/small", 10.0)], page.system_of, A)
    assert none.figures[0].ratio is None
    assert none.figures[0].says == "not known of both"


def test_a_cost_in_another_currency_is_not_compared():
    other = result("b", "one/small", 10.0)
    euros = replace(other, runs=tuple(replace(r, summary=replace(r.summary, currency="EUR")) for r in other.runs))
    mixed = replace(other, runs=(*other.runs[:2], *euros.runs[2:]))
    for a, b in ((other, euros), (mixed, mixed)):
        (held,) = standings([replace(a, system="a"), b], page.system_of, A)
        assert {each.name: each.ratio is None for each in held.figures} == {
            "time to quality": False,
            "energy": False,
            "cost": True,
        }


def test_profiles_are_those_of_dolan_and_more():
    """Of two benchmarks each is fastest in one; a third b lacks, and what one alone has says nothing."""
    times = {"a": {"x": 1.0, "y": 4.0, "z": 3.0, "w": 1.0}, "b": {"x": 2.0, "y": 1.0}, "c": {"z": 6.0}, "d": {"v": 1.0}}
    chart = profiles(times)
    assert chart is not None
    up = Scale(0.0, 1.0, HEIGHT - BOTTOM, TOP)
    ends = [tuple(map(float, curve.points.split()[-1].split(","))) for curve in chart.curves]
    assert [y for _, y in ends] == [up.at(1.0), up.at(2 / 3), up.at(1 / 3)]
    heights = [{float(place.split(",")[1]) for place in curve.points.split()} for curve in chart.curves]
    assert heights[0] == {up.at(0), up.at(1 / 3), up.at(2 / 3), up.at(1.0)}
    assert heights[1] == {up.at(0), up.at(1 / 3), up.at(2 / 3)}
    factors = [[1, 1, 1, 1, 1, 4, 4, 4], [1, 1, 1, 2, 2, 4], [1, 2, 2, 4]]
    across = LogScale([1.0, 4.0], LEFT, WIDTH - RIGHT)
    for curve, right in zip(chart.curves, factors, strict=True):
        assert [float(place.split(",")[0]) for place in curve.points.split()] == [across.at(each) for each in right]
    assert profiles({"a": {"x": 1.0}, "b": {"y": 1.0}}) is None
    assert profile([result("a", "one/small", 10.0)], page.system_of) is None


def test_the_page_has_both(tmp_path):
    entries = [result("a", "one/small", 10.0), result("b", "one/small", 10.05), result("b", "two/small", 3.0)]
    shown = page.html(entries, tmp_path / "results.html", {}, A)
    assert "tie</span>" in shown
    assert "about 9 times in 10" in shown
    assert "times as long as the fastest" in shown
    assert "two/<wbr>small" in shown


def test_comparisons_over_several_benchmarks():
    made = compare(
        [result("a", "one/small", 10.0), result("a", "two/small", 40.0)],
        [result("b", "one/small", 5.0), result("b", "two/small", 10.0)],
    )
    time, energy, cost = of_comparisons(made)
    assert (time.name, energy.name, cost.name) == ("time to quality", "energy", "cost")
    assert time.ratio == pytest.approx(math.sqrt(0.5 * 0.25))
    assert len(time.over) == 2
    idle = replace(entry(5.0, benchmark="two/small"), runs=(run(5.0, joules=0.0),) * 3)
    measured = [result("a", name, 10.0) for name in ("one/small", "two/small")]
    made = compare(measured, [result("b", "one/small", 5.0), idle])
    energy = next(each for each in of_comparisons(made) if each.name == "energy")
    assert (energy.ratio, energy.over) == (pytest.approx(0.5), ("one/small",))


def test_what_does_not_compare_is_in_no_mean():
    entries = [result("a", "one/small", 10.0), result("b", "one/small", 5.0, own_price=True)]
    figures = {each.name: each.over for each in standings(entries, page.system_of, A)[0].figures}
    assert figures == {"time to quality": ("one/small",), "energy": ("one/small",), "cost": ()}
    guessed = tuple(run(seconds, energy_source="estimated") for seconds in (4.9, 5.0, 5.1))
    part = tuple(run(seconds, coverage=0.2) for seconds in (4.9, 5.0, 5.1))
    wider = tuple(run(seconds, covers=("accelerator", "cpu")) for seconds in (4.9, 5.0, 5.1))
    untold = tuple(run(seconds, joules=None) for seconds in (4.9, 5.0, 5.1))
    idle = tuple(run(seconds, joules=0.0) for seconds in (4.9, 5.0, 5.1))
    for runs in (guessed, part, wider, untold, idle):
        other = replace(entries[1], own_price=False, runs=runs)
        figures = {each.name: each.over for each in standings([entries[0], other], page.system_of, A)[0].figures}
        assert figures == {"time to quality": ("one/small",), "energy": (), "cost": ("one/small",)}
