"""What is said of a result as a whole, by what its runs say."""

import pytest

from suite.results.entry import kept, multiplied, remarks, scored_by
from tests.results.maker import entry, run

TIMES = (10.0, 11.0, 12.0, 13.0)


def of(**changes):
    """A result of four runs, the fastest first; each of `changes` names a value for each run."""
    told = [dict(zip(changes, values, strict=True)) for values in zip(*changes.values(), strict=True)]
    return entry(runs=tuple(run(at, **each) for at, each in zip(TIMES, told, strict=True)))


def test_a_mean_energy_is_known_only_if_that_of_each_kept_run_is():
    assert of(joules=(None, 2.0, 3.0, None)).joules == 2.5
    assert of(joules=(1.0, None, 3.0, 4.0)).joules is None


def test_a_run_without_an_energy_covers_nothing_less():
    assert of(joules=(None, 5.0, 5.0, 5.0), coverage=(0.1, 1.0, 0.9, 1.0)).coverage == 0.9


def test_runs_whose_seeds_are_not_known_are_not_said_to_have_one():
    assert "ONE SEED" in remarks(of(seed=(3, 3, 3, 3)))
    assert "ONE SEED" not in remarks(of(seed=(None, None, None, None)))


def three(*reached, **changes):
    """A result of three runs, of 10, 11 and 12 s."""
    return entry(
        runs=tuple(run(10.0 + at, each, joules=(1.0, 2.0, 9.0)[at]) for at, each in enumerate(reached)), **changes
    )


def test_from_three_runs_on_the_fastest_and_the_slowest_are_dropped_and_a_lost_one_is_the_slowest():
    assert three(True, True, True).joules == 2.0
    assert three(True, False, True).joules == 9.0
    assert three(True, False, False).joules is None
    two = entry(runs=(run(10.0, joules=1.0), run(11.0, joules=2.0)))
    assert (two.joules, kept((run(10.0), run(11.0, False)))) == (1.5, [])
    assert (scored_by(three(True, True, True)), scored_by(two)) == ("", "mean of 2 runs")
    assert scored_by(three(True, True, True, normalisation=1.25)) == "olympic mean of 3 runs times 1.25"


def test_times_are_those_that_the_score_counts():
    assert [each.summary.seconds for each in multiplied(three(True, True, True, normalisation=1.5))] == [15, 16.5, 18]
    assert three(True, False, True, normalisation=1.5).times == [15, 18]
    assert three(True, True, True, normalisation=None).times == [10, 11, 12]
    assert entry(runs=(run(12.0), run(10.0), run(11.0))).times == [10, 11, 12]


@pytest.mark.parametrize(("needed", "short"), [(None, False), (3, False), (4, True)])
def test_a_result_is_short_of_runs_that_it_needs(needed, short):
    made = entry(runs_needed=needed)
    assert (made.short, f"3 OF {needed} RUNS" in remarks(made)) == (short, short)


def test_costs_in_several_currencies_have_no_mean():
    assert of(currency=("USD",) * 4).cost == pytest.approx(11.5 / 3600)
    mixed = of(currency=("USD", "USD", "EUR", "USD"))
    assert (mixed.currency, mixed.cost) == (None, None)


@pytest.mark.parametrize(
    ("source", "told"), [("nvml", "nvml"), ("rapl", "nvml, rapl"), ("nvml+estimated", "estimated")]
)
def test_an_energy_is_an_estimate_if_that_of_one_node_is(source, told):
    made = of(energy_source=("nvml", "nvml", source, "nvml"))
    assert (made.energy_source, made.estimated) == (told, told == "estimated")


def test_utilisation_is_of_the_peak():
    assert entry(flops=2e9, peak_flops=1e12).utilisation == pytest.approx(2e9 * 500 / 10 / 1e12)
    assert entry(flops=2e9).utilisation is None
    assert entry(peak_flops=1e12).utilisation is None
    assert entry(flops=2e9, peak_flops=1e12, runs=(run(samples=None),) * 3).utilisation is None


def test_what_goes_with_a_figure_is_remarked():
    noisy = of(noise=(("others",), (), (), ()), coverage=(0.5, 0.9, 1.0, 1.0))
    assert {"1 of 4 NOISY", "2 of 4 ENERGY IN PART"} <= {*remarks(noisy)}
    made = entry(own_price=True, unheld=True, part=0.25, verdict="error", seconds=None)
    assert remarks(made) == ["NOT CHECKED", "NO SCORE", "NO REFERENCE POINTS", "0.25 OF THE DATA", "OWN PRICE"]
