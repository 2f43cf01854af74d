"""How long a block takes when it is trained again, where its training or its clock was made to tell another time."""

import pytest

from suite.audit import comparing
from suite.config.folder import ROOT
from suite.measure.load import Load, LoadMeter
from tests.audit.conftest import SEED, audited, needs_isolation, trained

pytestmark = [pytest.mark.soak, needs_isolation]  # trains

PUT_OFF = """
import torch

from reference_impls.image_classification import torch as reference
from suite.harness.implementation import TrainStats
from suite.record import clock

ACCELERATORS = 1
true_ms, begun_ms = clock._since_boot_ms, clock._since_boot_ms()
clock._since_boot_ms = lambda: begun_ms + (true_ms() - begun_ms) // 8


class PutOff:
    def __init__(self, inner, size):
        self.inner, self.size, self.due = inner, size, 0

    def train_until(self, samples):
        self.due = -(-samples // self.size) * self.size
        return TrainStats(self.due, None)

    def trained(self):
        if self.due:
            self.inner.train_until(self.due)
            self.due = 0
        return self.inner

    def predict(self, data):
        return self.trained().predict(data)

    def state_dict(self):
        return self.trained().state_dict()

    def load_state_dict(self, state):
        self.inner.load_state_dict(state)


def build(hyperparameters, data, seed, device):
    return PutOff(reference.build(hyperparameters, data, seed, device), hyperparameters["global_batch_size"])
"""


def test_a_clock_that_ran_slowly_while_training_was_put_off(tmp_path, monkeypatch, capsys):
    (tmp_path / "ours.py").write_text(PUT_OFF)
    made = trained(tmp_path, ROOT, f"seed={SEED}", f"implementation={tmp_path / 'ours.py'}")
    monkeypatch.setattr(comparing, "LEAST_S", 0.0)
    monkeypatch.setattr(LoadMeter, "read", lambda meter: Load(utilisation=1.0, steal=0.0, others=0.0))
    assert audited(capsys, made, "blocks=2")[2] == {"audit.7"}


WARMED_UP = """
import time

import torch

from reference_impls.image_classification import torch as reference

ACCELERATORS = 1


def build(hyperparameters, data, seed, device):
    made = reference.build(hyperparameters, data, seed, device)
    predict = made.predict

    def first(data):
        time.sleep(5)
        made.predict = predict
        return predict(data)

    made.predict = first
    return made
"""


def test_an_evaluation_that_is_slow_the_first_time_is_no_breach_in_a_later_block(tmp_path, monkeypatch, capsys):
    (tmp_path / "ours.py").write_text(WARMED_UP)
    made = trained(tmp_path, ROOT, f"seed={SEED}", f"implementation={tmp_path / 'ours.py'}")
    monkeypatch.setattr(comparing, "LEAST_S", 0.0)
    code, report, failed = audited(capsys, made, "blocks=1", "draw=02")
    assert (code, failed) == (0, set()), report["findings"]
