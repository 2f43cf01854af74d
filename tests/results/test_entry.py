"""What is said of a result as a whole, by what its runs say."""

from suite.results.entry import remarks
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
