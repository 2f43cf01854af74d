"""How far apart two ways are, and which array is the worst by its own bound."""

import math

import numpy as np
import pytest

from suite.check.equivalence.ways import KNOWN, Worst, distances, worst


@pytest.mark.parametrize(("apart", "found"), [(0.9 * KNOWN, 0.0), (1.1 * KNOWN, 1.1 * KNOWN / (2 + KNOWN))])
def test_what_is_within_the_precision_of_the_numbers_is_no_distance(apart, found):
    before, ours = {"w": np.array([1.0, 0.0])}, {"w": np.array([0.0, 2.0])}
    theirs = {"w": np.array([0.0, 2.0 + apart])}
    assert distances(before, ours, theirs) == {"w": pytest.approx(found, rel=1e-6, abs=1e-12)}


def test_what_is_not_a_number_is_infinitely_far_apart():
    ours = {"w": np.ones(2)}
    assert distances(ours, ours, {"w": np.full(2, np.nan)}) == {"w": math.inf}


def test_the_worst_is_that_which_exceeds_its_own_bound_by_most():
    """That of an array is `slack` times what a nudge makes of it, or the distance that all may have."""
    found, spread = {"a": 0.2, "b": 0.3, "c": 9.0}, {"a": 0.01, "b": 0.2, "c": 5.0}
    assert worst(found, spread, 0.1, 2.0, 1.0) == Worst("a", 0.2, 0.1, 2)
    assert worst({"b": 0.3}, spread, 0.1, 2.0, 1.0) == Worst("b", 0.3, 0.4, 1)
    assert worst({"c": 9.0}, spread, 0.1, 2.0, 1.0) is None
