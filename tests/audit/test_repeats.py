"""Whether a machine repeats itself, before a block that ended in other bits on it is condemned."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from suite.audit import replaying
from suite.audit.comparing import Compared, leads_to_its_state
from suite.audit.replaying import REPEATED_S, replay
from suite.harness.implementation import TrainStats
from tests.audit.blocks import THREADS, beginning, claim

pytestmark = pytest.mark.repeated


@pytest.fixture
def ended(monkeypatch):
    """Return the severity of what is found of a long block, each training of which ends in the next of `states`."""

    def found(states, unlike=()):
        process, made = SimpleNamespace(asked_s=0.0), iter(states)

        def ask(do):
            process.asked_s += REPEATED_S + 1

        process.ask = ask
        monkeypatch.setattr(replaying, "started", lambda run, means: nullcontext(process))
        monkeypatch.setattr(replaying, "saved", lambda process: {"a": np.array([float(next(made))])})
        monkeypatch.setattr(replaying, "_kept", lambda run, samples, sha256: {"a": np.array([float(samples)])})
        monkeypatch.setattr(replaying, "train", lambda process, to: TrainStats(to, None))
        for name in ("load", "data_of", "give_evaluation", "read_predictions", "_predicted"):
            monkeypatch.setattr(replaying, name, lambda *given: None)
        block = replay(beginning(), claim(1, 1.0), SimpleNamespace(task=None), like=not unlike)
        return [each.severity for each in leads_to_its_state(Compared(block, unlike))]

    return found


def test_a_long_block_is_condemned_where_the_machine_repeats_itself(ended):
    assert ended([0.0, 9000.0, 9000.0]) == ["fail"]


def test_a_machine_that_does_not_repeat_itself_leaves_a_long_block_open(ended):
    assert ended([0.0, 9000.0, 9001.0]) == ["error"]


def test_on_another_machine_a_long_block_is_trained_once(ended):
    assert ended([0.0, 9000.0], THREADS) == ["error"]
