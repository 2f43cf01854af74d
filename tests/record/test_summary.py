"""Figures of a run in words."""

import pytest

from suite.record.summary import Summary, format_cost, format_joules, format_seconds


@pytest.mark.parametrize(("coverage", "partial"), [(0.949, True), (0.95, False), (None, False)])
def test_an_energy_stands_for_a_run_from_95_percent_of_its_time_on(coverage, partial):
    assert Summary(joules=1.0, coverage=coverage).partial == partial
    assert not Summary(joules=None, coverage=coverage).partial


@pytest.mark.parametrize(
    ("joules", "said"),
    [(0.0, "0 J"), (9999.4, "9999 J"), (12_345.0, "12.3 kJ"), (999_499.0, "999 kJ"), (1_234_567.0, "1.23 MJ"),
     (4.2e9, "4,200.00 MJ")],
)  # fmt: skip
def test_energy_has_the_unit_of_its_size(joules, said):
    assert format_joules(joules) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0, "0.0 s"), (0.0497, "0.05 s"), (83.24, "83.2 s"), (7199.0, "119 min 59 s"), (7199.6, "2 h 00 min"),
     (7259.0, "2 h 01 min")],
)  # fmt: skip
def test_a_time_is_rounded_to_the_last_unit_that_is_shown(seconds, said):
    assert format_seconds(seconds) == said


@pytest.mark.parametrize(("currency", "said"), [("USD", "$1.20"), ("EUR", "EUR 1.20"), (None, "1.20")])
def test_a_cost_is_in_its_currency_if_it_has_one(currency, said):
    """It has none at a price of which nothing else is told, as with hw.price=null."""
    assert format_cost(1.2, currency) == said
