"""The cheapest system for a deadline, and the fastest for a budget."""

from suite import config
from suite.forecast.choosing import cheapest, choices, fastest
from suite.forecast.model import forecast
from suite.forecast.needed import Needed
from suite.measure.machine import Machine
from tests.forecast import made
from tests.forecast.made import BENCHMARK

MACHINE = Machine("a processor", 4, 1, 8.0, False)
CPU = config.system("cpu")
FIRST, EVERY = BENCHMARK.evaluation.first, BENCHMARK.evaluation.every


def test_cheapest_for_a_deadline_and_fastest_for_a_budget():
    cheap, quick = CPU, CPU.model_copy(update={"name": "quick", "price_per_cpu_hour": 5.0})
    runs: Needed = made.needed([FIRST + each * EVERY for each in range(9)])
    slow_one = forecast(runs, made.rates(1.0, 1.0), cheap, MACHINE, "torch")
    fast_one = forecast(runs, made.rates(0.1, 0.1), quick, MACHINE, "torch")
    both = [slow_one, fast_one]
    assert slow_one.cost is not None
    assert fast_one.cost is not None
    assert cheapest(both, 1e9) is slow_one
    assert cheapest(both, slow_one.seconds.high - 1) is fast_one
    assert cheapest(both, 1e-3) is None
    assert fastest(both, fast_one.cost.high) is fast_one
    assert fastest(both, slow_one.cost.high) is slow_one
    assert slow_one.cost.high < fast_one.cost.median < 0.999 * fast_one.cost.high
    assert fastest(both, 0.999 * fast_one.cost.high) is slow_one
    assert fastest(both, 1e-9) is None


def test_costs_in_two_currencies_are_not_compared():
    listed = config.system("h100").price
    assert listed
    euros = CPU.model_copy(update={"name": "euros", "price": listed.model_copy(update={"currency": "EUR"})})
    made_of = [forecast(made.needed([FIRST] * 9), made.rates(1, 1), each, MACHINE, "torch") for each in (CPU, euros)]
    told = choices(made_of, deadline=1e9, budget=1e9)
    assert [(each.asked, each.forecast) for each in told] == [("deadline", None), ("budget", None)]
    assert all("prices are in EUR and USD" in each.why for each in told)
    assert all(each.forecast for each in choices(made_of[1:], deadline=1e9, budget=1e9))


def test_without_forecasts_no_choice_is_known():
    told = choices([], deadline=1e9, budget=1e9)
    assert [each.why for each in told] == ["not known: no system has a forecast"] * 2
