"""Seeds are distinct and, when not given, not to be foreseen."""

import hashlib

import pytest

from suite.errors import UserError
from suite.harness.seeds import LIMIT, MAX_RUNS, draw, of_round


def test_given_seeds_follow_each_other():
    assert draw(3, 5) == (5, 6, 7)


def test_drawn_seeds_are_distinct_and_differ_between_commands():
    first, second = draw(50, None), draw(50, None)
    assert len(set(first) | set(second)) == 100


@pytest.mark.parametrize("seed", [-1, LIMIT - 1])
def test_a_seed_out_of_range_is_a_mistake(seed):
    with pytest.raises(UserError, match="is not from 0 to"):
        draw(2, seed)


def test_the_last_seeds_and_the_most_runs_are_in_their_ranges():
    assert draw(2, LIMIT - 2) == (LIMIT - 2, LIMIT - 1)
    assert len(draw(MAX_RUNS, None)) == MAX_RUNS
    for runs in (0, MAX_RUNS + 1):
        with pytest.raises(UserError, match=f"runs={runs} is not from 1 to {MAX_RUNS}"):
            draw(runs, None)


def test_seeds_of_a_round_are_the_same_for_everybody_who_derives_them():
    """By the words of rule runs.11, and nothing else."""
    text = b'["seed","r\\u00f6ster","example-org","parity/mini","cpu","closed",2]'
    second = int.from_bytes(hashlib.sha256(text).digest()[:8], "big") % 2**31
    assert of_round("r\u00f6ster", "example-org", "parity/mini", "cpu", "closed", 3)[1] == second


ROUND = {"token": "a", "submitter": "b", "benchmark": "c", "system": "d", "division": "e"}


@pytest.mark.parametrize("name", ROUND)
def test_another_round_submitter_benchmark_system_or_division_has_other_seeds(name):
    first, second = of_round(**ROUND, runs=50), of_round(**{**ROUND, name: "another"}, runs=50)
    assert len(set(first) | set(second)) == 100
