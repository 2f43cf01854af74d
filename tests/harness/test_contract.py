"""Whom the errors of an implementation are blamed on."""

import math
import re
from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest

from suite import config
from suite.errors import BrokenContract, UserError
from suite.harness import contract
from suite.harness.implementation import Device, TrainStats
from suite.record.states import LONGEST_NAME
from suite.store.authors import place


@pytest.mark.parametrize(("addresses", "raised"), [((), UserError), (("here:1", "there:1"), RuntimeError)])
def test_a_changed_hyperparameter_is_not_blamed_for_workers_that_cannot_reach_each_other(addresses, raised):
    def build(*_):
        raise RuntimeError("connectFullMesh failed")

    benchmark = config.benchmark("translation", "mini")
    changed = benchmark.model_copy(update={"hyperparameters": {**benchmark.hyperparameters, "dropout": 0.5}})
    device = Device("cpu", "fp32", addresses=addresses)
    with pytest.raises(raised, match="connectFullMesh failed"):
        contract.build(SimpleNamespace(build=build), changed, {}, 1, device)


def test_code_is_given_neither_answers_nor_to_build_with_what_it_is_evaluated_on():
    data = dict.fromkeys(("train_images", "test_images", "answer_labels", "vocabulary"))
    assert contract.training_data(data).keys() == {"train_images", "vocabulary"}
    given = contract.evaluation_data(data)
    assert given.keys() == {"test_images"}
    with pytest.raises(BrokenContract, match="'answer_labels' is asked for, which predict is not given"):
        given["answer_labels"]


class Answering:
    """An implementation of which `train_until` returns what it is told to."""

    def __init__(self, stats):
        self.stats, self.state = stats, {}

    def train_until(self, samples):
        return self.stats

    def predict(self, data):
        return self.stats

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


@pytest.mark.parametrize(
    ("stats", "said"),
    [
        (TrainStats(2**63, 0.5), "an int, 9223372036854775808 as samples"),
        (TrainStats(40, -(2**63)), "an int, -9223372036854775808 as loss"),
        (TrainStats(40, "0.5"), "a str, '0.5' as loss"),
        (TrainStats(True, 0.5), "a bool, True as samples"),
        (TrainStats(20, 0.5), "stopped at 20 samples"),
        (TrainStats(50, 0.5), "stopped at 50 samples, in steps of 20"),
        (TrainStats(60, 0.5), "stopped at 60 samples, in steps of 20"),
    ],
)
def test_what_no_evidence_can_hold_or_no_step_ends_at_breaks_the_contract(stats, said):
    with pytest.raises(BrokenContract, match=re.escape(f"of ours {said}") if said[0] == "s" else re.escape(said)):
        contract.Checked(Answering(stats), "ours", 20).train_until(40)


def test_a_state_may_be_of_any_samples_and_one_step_leads_beyond_it():
    made = contract.Checked(Answering(TrainStats(60, None)), "ours", 20)
    made.load_state_dict({})
    assert made.train_until(1).samples == 60
    with pytest.raises(BrokenContract, match="predict of ours returned a str"):
        contract.Checked(Answering("1101"), "ours", 20).predict({})


def test_what_build_does_with_its_hyperparameters_leaves_the_benchmark_as_it_was():
    benchmark = config.benchmark("translation", "mini")
    before, given = deepcopy(benchmark.hyperparameters), []
    build = lambda hyper, *_: given.append(hyper.copy()) or hyper.clear() or Answering(None)  # noqa: E731
    contract.build(SimpleNamespace(build=build), benchmark, {}, 1, Device("cpu", "fp32"))
    assert given == [before]
    assert benchmark.hyperparameters == before


@pytest.mark.parametrize("name", ["", "w" * (LONGEST_NAME + 1), "weights.npy", "a\nb", 7])
def test_names_that_no_checkpoint_gives_back_break_the_contract(name):
    inner, array = Answering(None), np.zeros(1)
    inner.state = {"w" * LONGEST_NAME: array, "weights": array}
    made = contract.Checked(inner, "ours", None)
    assert made.state_dict() == inner.state
    inner.state = {name: array}
    with pytest.raises(BrokenContract, match=f"state_dict of ours has the name {re.escape(repr(name)[:50])}"):
        made.state_dict()


@pytest.mark.parametrize(("array", "said"), [([0.5], "a list"), (np.array([{}]), "a numpy array of dtype object")])
def test_what_is_no_plain_array_is_no_state(array, said):
    inner = Answering(None)
    inner.state = {"weights": array}
    with pytest.raises(BrokenContract, match=f"'weights' in the state_dict of ours is {said}"):
        contract.Checked(inner, "ours", None).state_dict()


def test_predictions_that_json_gives_back_as_others_are_named():
    contract.check_json([1, [math.nan, {"box": [0.5, None, True]}], "a"])
    for changed in ({"box": (1, 2)}, {1: 2}, [{"a": 1, 2: 3}], np.float64(0.5)):
        with pytest.raises(BrokenContract, match=r"prediction 1 \(from 0\) that predict returned is .* read back"):
            contract.check_json([0, changed])


def test_a_syntax_error_lies_in_the_file_that_has_it():
    with pytest.raises(SyntaxError) as raised:
        compile("x = (", "/home/me/tasks/mine/__init__.py", "exec")
    assert place(raised.value) == "mine/__init__.py:1"
