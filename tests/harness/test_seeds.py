"""Seeds are distinct and, when not given, not to be foreseen."""

import pytest

from suite.errors import UserError
from suite.harness.seeds import LIMIT, draw


def test_given_seeds_follow_each_other():
    assert draw(3, 5) == (5, 6, 7)


def test_drawn_seeds_are_distinct_and_differ_between_commands():
    first, second = draw(50, None), draw(50, None)
    assert len(set(first) | set(second)) == 100


@pytest.mark.parametrize("seed", [-1, LIMIT - 1])
def test_a_seed_out_of_range_is_a_mistake(seed):
    with pytest.raises(UserError, match="is not from 0 to"):
        draw(2, seed)
