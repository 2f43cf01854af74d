"""The room that is made sure of before the clock starts."""

import numpy as np
import pytest

from suite.harness import checkpoint
from suite.harness.checkpoint import Checkpoints
from suite.record.evidence import LOG
from suite.record.mllog import Log


def test_what_a_run_has_written_already_has_its_room(tmp_path, monkeypatch):
    """So that the disk which it fills is no reason against going on."""
    asked = []
    monkeypatch.setattr(checkpoint.os, "posix_fallocate", lambda file, start, size: asked.append(size))
    state = {"weights": np.zeros(1 << 20)}
    checkpoint.reserve(tmp_path, state, 2)
    for samples in (0, 10):
        Checkpoints(tmp_path, Log(tmp_path / LOG), keep=True).logged(state, samples)
    checkpoint.reserve(tmp_path, state, 2)
    before, after = asked
    assert before - after == pytest.approx(2 * state["weights"].nbytes, rel=0.01)
