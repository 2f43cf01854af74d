"""How far apart what was trained again may be from what a run claims: each bound of rules.md from both sides."""

from dataclasses import replace

import numpy as np
import pytest

from suite.audit.comparing import (
    Compared,
    Way,
    initial,
    leads_to_its_state,
    loses_as_it_says,
    predicts_from_its_state,
)
from suite.audit.replaying import Predicted
from suite.record.states import state_sha256
from tests.audit.blocks import THREADS, beginning, block, claim


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("distance", "stretch", "other", "near"),
    [
        (0.55, 0.02, 0.15, True),
        (0.56, 0.0, 0.0, False),
        (0.0, 0.021, 0.021, False),
        (0.0, 0.0, 0.151, False),
    ],
)
def test_rounding_explains_other_bits_within_the_bounds(distance, stretch, other, near, sign):
    assert Way(distance, sign * stretch, sign * other).near == near


@pytest.mark.parametrize(("apart", "said"), [(0.9e-4, []), (1.1e-4, ["fail"])])
def test_an_initial_state_is_within_a_ten_thousandth_of_its_size(apart, said):
    kept = {"a": np.array([3.0, 4.0])}
    built = {"a": kept["a"] + [5 * apart, 0.0]}
    assert [each.severity for each in initial(beginning(), built, kept, ())] == said


@pytest.mark.parametrize(
    ("in_open", "unlike", "said"), [(True, THREADS, "error"), (True, (), "fail"), (False, THREADS, "fail")]
)
def test_on_another_machine_the_seed_may_give_the_open_division_s_model_another_state(in_open, unlike, said):
    (found,) = initial(beginning(in_open), {"a": np.ones(2)}, {"a": np.zeros(2)}, unlike)
    assert found.severity == said


@pytest.mark.parametrize("samples", [3900, 4100])
def test_training_again_ends_at_the_samples_of_the_claim(samples):
    state = {"a": np.zeros(2)}
    claimed = replace(claim(1, 1.0), after_sha256=state_sha256(state))
    assert [*leads_to_its_state(Compared(block(claimed, after=state, samples=4000), ()))] == []
    (found,) = leads_to_its_state(Compared(block(claimed, after=state, samples=samples), ()))
    assert (found.severity, found.found) == ("fail", f"it stops at {samples}")


@pytest.mark.parametrize(("accuracy", "said"), [(0.5049, ["note"]), (0.5051, ["fail"])])
def test_metrics_of_a_state_differ_by_rounding_alone(accuracy, said):
    claimed = replace(claim(1, 1.0), metrics={"accuracy": 0.5})
    predicted = Predicted("1" * 64, [1, 2], {"accuracy": accuracy})
    compared = Compared(block(claimed, after={}, kept_predicted=predicted), ())
    assert [each.severity for each in predicts_from_its_state(compared)] == said


@pytest.mark.parametrize(("others", "said"), [(2, "note"), (3, "fail")])
def test_two_of_a_hundred_predictions_may_be_others(others, said):
    claimed = replace(claim(1, 1.0), predictions=[1] * 100)
    predicted = Predicted("1" * 64, [2] * others + [1] * (100 - others), {})
    compared = Compared(block(claimed, after={}, kept_predicted=predicted), ())
    assert [each.severity for each in predicts_from_its_state(compared)] == [said]


@pytest.mark.parametrize(("unlike", "said"), [((), ["fail"]), (THREADS, [])])
def test_lists_of_predictions_are_compared_on_a_machine_like_the_run_s_alone(unlike, said):
    claimed = replace(claim(1, 1.0), predictions=[[1]] * 10)
    compared = Compared(block(claimed, after={}, kept_predicted=Predicted("1" * 64, [[2]] * 10, {})), unlike)
    assert [each.severity for each in predicts_from_its_state(compared)] == said


@pytest.mark.parametrize(("sha256", "said"), [(state_sha256({}), ["fail"]), ("0" * 64, [])])
def test_a_loss_is_held_to_that_of_the_same_bits_alone(sha256, said):
    claimed = replace(claim(1, 1.0), after_sha256=sha256, loss=0.5)
    assert [each.severity for each in loses_as_it_says(Compared(block(claimed, after={}, loss=0.6), ()))] == said
    assert [*loses_as_it_says(Compared(block(claimed, after={}, loss=0.5), ()))] == []
