"""States made from another: what moves, by how much, and what stays."""

import numpy as np

from suite.check.equivalence.states import nudged

BY = 1e-3
STATE = {
    "layer.weight": np.full(1000, 2, np.float32),
    "layer.bias": np.zeros(1000, np.float32),
    "filters": np.eye(2, dtype=np.float32),
    "exp_avg/layer.bias": np.zeros(1000, np.float32),
    "updates": np.array(0, np.float32),
    "step": np.array(3),
}


def deviation(name):
    return float((nudged(STATE, BY)[name] - STATE[name]).std())


def test_numbers_move_by_their_own_size_and_biases_of_zero_by_that_of_what_they_are_added_to():
    np.testing.assert_allclose([deviation("layer.weight"), deviation("layer.bias")], [2 * BY, BY], rtol=0.1)


def test_zeros_within_an_array_the_optimizer_s_and_counters_stay():
    moved = nudged(STATE, BY)
    np.testing.assert_array_equal(moved["filters"] == 0, STATE["filters"] == 0)
    for name in ("exp_avg/layer.bias", "updates", "step"):
        np.testing.assert_array_equal(moved[name], STATE[name])


def test_each_draw_is_another_and_the_same_again():
    one, again, other = (nudged(STATE, BY, number)["layer.bias"] for number in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert (one != other).all()
