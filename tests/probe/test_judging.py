"""How far an operator's values are off, by hand."""

import numpy as np
import pytest

from suite.probe.judging import WHOLE, Output, errors, unjudged, unlike


def made(exact, off, kind="float32"):
    exact = np.array(exact, float)
    return Output(exact + np.array(off, float), exact, kind)


@pytest.mark.parametrize(
    ("exact", "unit"), [(1.0, 2.0**-23), (1.99, 2.0**-23), (2.0, 2.0**-22), (0.0, 2.0**-149), (2.0**-130, 2.0**-149)]
)
def test_a_unit_in_the_last_place_is_that_of_the_exact_value_and_of_a_subnormal_the_smallest(exact, unit):
    assert errors([made([exact], [3 * unit])]).ulp == pytest.approx(3)


def test_the_worst_of_each_error_counts_and_all_that_was_lost():
    small, large = made([4.0, 3.0], [0.0, 0.5]), made([1.0, np.inf, 1.0], [0.0, 0.0, np.nan])
    found = errors([small, large, large])
    assert (found.l2, found.linf) == (pytest.approx(0.1), pytest.approx(0.125))
    assert found.lost == 2  # what is infinite in both is not


def test_another_number_of_threads_is_another():
    assert [unlike(threads) for threads in (1, 2, 8)] == [2, 1, 1]


def test_numbers_of_other_types_are_not_judged_and_named_in_one_order():
    assert unjudged(set()) == WHOLE
    assert unjudged({"float32", "bfloat16"}) is None
    assert (
        unjudged({"float64", "complex64", "complex128", "float32"}) == "numbers of complex128 and complex64 and float64"
    )
