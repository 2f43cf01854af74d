"""What each trial tells of tiny implementations, without a framework."""

import math

import numpy as np
import pytest

from suite import config
from suite.check.equivalence.draws import UNLIKELY, unlikely_ratio
from suite.check.equivalence.report import places
from suite.check.equivalence.states import amplified, at_later_steps
from suite.check.equivalence.trials import Subject, equivalence
from suite.harness.implementation import TrainStats
from tests.check.equivalence.comparing import equivalent, told

MINI = config.benchmark("recommendation", "mini")


class Tiny:
    """Each step moves a hundred numbers towards zero, with some noise and weight decay, and counts itself."""

    def __init__(self, hyperparameters):
        self.decay = hyperparameters.get("weight_decay", 0.0)
        self.state = {"numbers": np.linspace(1.0, 2.0, 100), "order": np.arange(5), "step": np.array(0)}

    def train_until(self, samples):
        at = int(self.state["step"])
        noise = np.random.default_rng([self.draws(), at]).standard_normal(100)
        moved = self.state["numbers"] * (0.9 - self.decay) + 0.01 * noise
        self.state = {**self.state, "numbers": moved, "step": np.array(at + 1)}
        return TrainStats(1, None)

    def draws(self):
        return 1

    def predict(self, data):
        return [float(each) for each in self.state["numbers"]]

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


def compared(candidate, reference=Tiny, own_draws=False, precisions=("fp32",), **hyperparameters):
    """The trials of one against another, on a device of which no time is judged."""
    benchmark = MINI.model_copy(update={"hyperparameters": hyperparameters})
    builders = [lambda made, _, of=each: of(made.hyperparameters) for each in (reference, candidate)]
    return equivalence(Subject(benchmark, *builders, {}, "gpu", 1, own_draws), precisions)


def broken(report):
    return [row.trial for row in report.trials if not row.holds]


def test_a_format_that_is_asked_for_twice_is_tried_once():
    """As of an implementation that trains in fp32, which is tried beside the format of its runs."""
    report = compared(Tiny, precisions=("fp32", "fp32"))
    assert equivalent(report), told(report)
    assert report == compared(Tiny)


class Counting(Tiny):
    def train_until(self, samples):
        return TrainStats(2 * super().train_until(samples).samples, None)


class Leaping(Tiny):
    def train_until(self, samples):
        stats = super().train_until(samples)
        self.state["order"] = self.state["order"][::-1]
        return stats


@pytest.mark.parametrize(
    ("candidate", "where", "remark"),
    [(Counting, "", "2 samples, 1 in the reference"), (Leaping, "order", "1 samples, 1 in the reference")],
)
def test_a_step_that_counts_otherwise_is_told(candidate, where, remark):
    report = compared(candidate)
    first = next(row for row in report.trials if not row.holds)
    assert (first.trial, first.where, first.remark) == ("the initial state's steps, 3: counters", where, remark)


class Overflowing(Tiny):
    def train_until(self, samples):
        stats = super().train_until(samples)
        self.state["numbers"] = self.state["numbers"] * np.nan
        return stats


class Unbegun(Tiny):
    def __init__(self, hyperparameters):
        super().__init__(hyperparameters)
        self.state["numbers"] = self.state["numbers"] * np.nan


@pytest.mark.parametrize(
    ("candidate", "found"), [(Overflowing, "a step from the trained state"), (Unbegun, "the initial state")]
)
def test_what_is_not_a_number_is_found_also_in_the_file(candidate, found):
    """JSON has no such number, and one that is left out would count as not tried."""
    report = compared(candidate)
    read = type(report).model_validate_json(report.model_dump_json())
    assert found in broken(read), told(read)


class Elsewhere(Tiny):
    """Draws samples of its own."""

    def draws(self):
        return 2


class Double(Tiny):
    """Has the same numbers in two arrays."""

    def train_until(self, samples):
        stats = super().train_until(samples)
        self.state["more"] = self.state["numbers"].copy()
        return stats

    def state_dict(self):
        return {"more": self.state["numbers"], **self.state}


def test_the_more_arrays_are_looked_at_the_rarer_is_what_one_of_them_may_show():
    for kind, arrays in ((Tiny, 1), (Double, 2)):
        report = compared(kind, kind, own_draws=True)
        (length,) = [row for row in report.trials if row.trial.startswith("the length of a step")]
        assert length.bound == pytest.approx(UNLIKELY + math.log10(arrays))


class Undecayed(Elsewhere):
    def __init__(self, hyperparameters):
        super().__init__({**hyperparameters, "weight_decay": 0.0})


def test_a_decay_that_is_left_out_is_found_beside_draws_of_its_own_too():
    for candidate, trials in ((Elsewhere, []), (Undecayed, ["with weight_decay 0.05, the length of a step: "])):
        report = compared(candidate, own_draws=True, weight_decay=5e-4)
        assert [row.partition("-log10")[0] for row in broken(report)] == trials, told(report)


class Reordered(Tiny):
    def __init__(self, hyperparameters):
        super().__init__(hyperparameters)
        self.state["order"] = self.state["order"][::-1]


class Ahead(Tiny):
    def __init__(self, hyperparameters):
        super().__init__(hyperparameters)
        self.state["step"] = np.array(1)


@pytest.mark.parametrize("own_draws", [True, False])
def test_an_order_is_of_those_alone_who_draw_it_and_a_count_is_nobodys(own_draws):
    report = compared(Reordered, own_draws=own_draws)
    assert ("the initial state" in broken(report)) != own_draws, told(report)
    assert "the initial state" in broken(compared(Ahead, own_draws=own_draws))


def tied(count, others=0):
    """Predicts a hundred labels, `count` of which any change of a number turns over, and `others` of another kind."""

    class Tied(Tiny):
        def predict(self, data):
            turned = int.from_bytes(self.state["numbers"].tobytes()[:8]) % 2**31
            return [*(f"{turned}" for _ in range(count)), *(f"{others}" for _ in range(4)), *"x" * (96 - count)]

    return Tied


def test_as_many_predictions_may_differ_as_a_nudge_changes():
    predictions = ["predictions of the trained state", "predictions of the shaken state"]
    assert broken(compared(tied(5, others=1), tied(5))) == []
    assert broken(compared(tied(0, others=1), tied(0))) == predictions
    report = compared(tied(50, others=1), tied(50))
    assert {row.remark for row in report.trials if row.trial in predictions} == {"a nudge changes 50% of them"}


def test_lengths_are_compared_where_one_of_both_moved():
    assert unlikely_ratio([0.0, 1.0, 2.0], [0.0, 1.0, 2.0]) == unlikely_ratio([0.0] * 3, [0.0] * 3) == 0
    some = unlikely_ratio([0.0, 1.0, 2.0, 3.0], [0.0, 1.1, 2.1, 2.9])
    assert some == unlikely_ratio([1.0, 2.0, 3.0], [1.1, 2.1, 2.9]) < 1
    assert unlikely_ratio([0.0, 1.0, 2.0], [1.0, 1.0, 2.0]) == pytest.approx(300)  # an array that one of them froze


def test_what_hardly_shows_in_a_step_is_known_by_the_end_of_its_name():
    given = {"opt_adamw_weight_decay": 0.01, "opt_adamw_epsilon": 1e-8, "epsilon_greedy": 0.1, "weight_decay": 0}
    assert amplified(given) == {"opt_adamw_weight_decay": pytest.approx(1.0), "opt_adamw_epsilon": pytest.approx(1e-3)}


def test_later_steps_are_those_of_the_counters_alone():
    state = {"step": np.array(3), "samples": np.array(30, np.uint32), "numbers": np.ones(2), "seeds": np.array([9, 7])}
    following = {"step": np.array(4), "samples": np.array(40, np.uint32), "numbers": np.zeros(2), "seeds": np.zeros(2)}
    made = at_later_steps(state, following, 3)
    assert all(each["seeds"].tolist() == [9, 7] for each in made)
    assert [(int(each["step"]), int(each["samples"]), each["numbers"].sum()) for each in made] == [
        (3, 30, 2.0),
        (4, 40, 2.0),
        (5, 50, 2.0),
    ]


def test_no_file_is_written_through_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs/run_1").mkdir(parents=True)
    (tmp_path / "runs/run_2").symlink_to(tmp_path / "elsewhere")
    assert [path.parent.name for path in places(tmp_path / "runs")] == ["run_1"]
