"""Later places of a run, without the training before them."""

import numpy as np
import pytest

from suite import config
from suite.harness.contract import Checked
from suite.harness.implementation import TrainStats
from suite.probe import fast_forward

BENCHMARK = config.benchmark("image_classification", "mini")
SIZE = 100


class Counting:
    """Notes each step's number; its state has the counter by that name, a plain number, and other whole numbers."""

    def __init__(self, name="step", dtype=np.int64):
        self.name, self.dtype, self.step, self.taken = name, dtype, 0, []

    def train_until(self, samples):
        while True:
            self.taken.append(self.step)
            self.step += 1
            if self.step * SIZE >= samples:
                return TrainStats(self.step * SIZE, None)

    def predict(self, data):
        return []

    def state_dict(self):
        counter = {self.name: np.array(self.step, self.dtype)} if self.name else {}
        return counter | {"seed": np.array(7), "order": np.array([self.step]), "rate": np.array(0.5 * self.step)}

    def load_state_dict(self, state):
        self.step = int(state[self.name or "order"].item())
        assert not self.name or state["seed"] == 7


@pytest.mark.parametrize("counting", [Counting(), Counting("iterations", np.int32)])
def test_training_goes_on_at_the_place(counting):
    made = Checked(counting, "counting", None)
    seen = made.train_until(3 * SIZE).samples
    assert fast_forward.go_to(made, seen, 60 * SIZE + 1) == 60 * SIZE
    assert made.train_until(61 * SIZE).samples == 61 * SIZE
    assert counting.taken == [0, 1, 2, 3, 59, 60]
    assert counting.state_dict()[counting.name].dtype == counting.dtype


def test_without_a_counter_it_goes_on_where_it_was():
    counting = Counting(name=None)
    made = Checked(counting, "counting", None)
    seen = made.train_until(3 * SIZE).samples
    assert fast_forward.go_to(made, seen, 60 * SIZE) is None
    assert made.train_until(1).samples == 4 * SIZE


def test_places_lie_all_over_the_budget():
    found = [fast_forward.place(BENCHMARK, index) / BENCHMARK.budget_samples for index in range(fast_forward.PLACES)]
    assert sorted(found) == pytest.approx([(index + 0.5) / fast_forward.PLACES for index in range(fast_forward.PLACES)])
    assert min(found[:3]) < 1 / 3 < 2 / 3 < max(found[:3])
    assert fast_forward.place(BENCHMARK, fast_forward.PLACES) == fast_forward.place(BENCHMARK, 0)
