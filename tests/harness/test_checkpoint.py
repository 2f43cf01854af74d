"""The room that is made sure of before the clock starts."""

import errno
import os

import numpy as np
import pytest

from suite import config
from suite.config.models import Evaluation
from suite.harness import checkpoint
from suite.harness.checkpoint import Checkpoints
from suite.record import states
from suite.record.evidence import CHECKPOINT, LOG
from suite.record.mllog import Log
from suite.store.disk import partial


def test_what_a_run_has_written_already_has_its_room(tmp_path, monkeypatch):
    """So that the disk which it fills is no reason against going on."""
    asked = []
    monkeypatch.setattr(checkpoint.os, "posix_fallocate", lambda file, start, size: asked.append(size))
    state = {"weights": np.zeros(1 << 20)}
    checkpoint.reserve(tmp_path, state, 2)
    for samples in (0, 10):
        Checkpoints(tmp_path, Log(tmp_path / LOG), keep=True).logged(state, samples)
    partial(tmp_path / CHECKPOINT).write_bytes(state["weights"].tobytes())  # of a run that was killed as it wrote
    checkpoint.reserve(tmp_path, state, 2)
    before, after = asked
    assert before - after == pytest.approx(3 * state["weights"].nbytes, rel=0.01)


def test_there_is_room_for_a_checkpoint_beside_the_last_one(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(checkpoint.os, "posix_fallocate", lambda file, start, size: asked.append(size))
    state = {"weights": np.zeros(1 << 20)}
    for each in ({}, state):
        checkpoint.reserve(tmp_path, each, 0)
    evidence, whole = asked
    assert whole - evidence == 2 * state["weights"].nbytes


def test_a_disk_without_room_is_told_before_the_clock_starts_with_what_the_run_needs(tmp_path, monkeypatch):
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoint.os, "posix_fallocate", full)
    state = {"weights": np.zeros(1 << 20)}  # of 8 MiB: five of them, and 16 MiB for the evidence
    with pytest.raises(OSError, match="No space left on device: the run needs 56 MiB of room"):
        checkpoint.reserve(tmp_path, state, 3)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_left_no_fuller(tmp_path, monkeypatch):
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(states.os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device"):
        states.write(tmp_path / CHECKPOINT, {"weights": np.zeros(10)}, 0)
    assert [path.name for path in tmp_path.iterdir()] == []


def test_of_a_run_that_has_ended_no_checkpoint_is_left_nor_a_part_of_one(tmp_path):
    for path in (tmp_path / CHECKPOINT, partial(tmp_path / CHECKPOINT)):
        path.touch()
    checkpoint.remove(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("first", "every", "budget", "count"), [(4, 2, 4, 1), (4, 2, 8, 3), (4, 2, 9, 4), (4, 10, 5, 2), (4, 2, 1, 1)]
)
def test_room_is_reserved_for_the_evaluations_up_to_the_budget(first, every, budget, count):
    evaluation = Evaluation(first=first, every=every)
    usual = config.benchmark("image_classification", "mini")
    benchmark = usual.model_copy(update={"evaluation": evaluation, "budget_samples": budget})
    assert checkpoint.evaluations(benchmark) == count
