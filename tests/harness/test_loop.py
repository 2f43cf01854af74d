"""When evaluations are due, what is saved on the way to them, and what ends a run."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.config import benchmark
from suite.config.models import Evaluation
from suite.errors import BadPrediction, shown
from suite.harness import checkpoint
from suite.harness.checkpoint import Checkpoints
from suite.harness.implementation import TrainStats
from suite.harness.loop import Loop
from suite.record import states
from suite.record.mllog import Log, samples_of
from suite.record.states import state_sha256

MINI = benchmark("image_classification", "mini").model_copy(
    update={"evaluation": Evaluation(first=4000, every=1000), "budget_samples": 10_500}
)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [(0, 4000), (3999, 4000), (4000, 5000), (4001, 5000), (9999, 10_000), (10_000, 10_500)],
)
def test_evaluations_follow_the_cadence_and_end_with_the_budget(samples, expected):
    assert MINI.next_evaluation(samples) == expected


@given(st.integers(0, 10_499))
def test_the_next_evaluation_lies_ahead(samples):
    assert samples < MINI.next_evaluation(samples) <= MINI.budget_samples


class Counting:
    """Learns nothing, and predicts the same for ever."""

    def __init__(self, prediction, loss=1.0):
        self.samples, self.prediction, self.loss = 0, prediction, loss

    def train_until(self, samples):
        self.samples = samples
        return TrainStats(samples, self.loss)

    def predict(self, data):
        return [self.prediction]

    def state_dict(self):
        return {"samples": np.array(self.samples)}


def score(predictions):
    if isinstance(predictions[0], str):
        raise BadPrediction(1, f"{predictions[0]} is no number")
    return {"accuracy": predictions[0]}


def run(folder, implementation, keep=False, benchmark=MINI, interrupted=lambda: False, score=score):
    log = Log(folder / "log.txt")
    checkpoints = Checkpoints(folder, log, keep)
    loop = Loop(benchmark, implementation, {}, score, log, folder, checkpoints, lambda *_: None, interrupted)
    return loop.run(0), log.lines


def test_a_checkpoint_is_there_before_the_first_evaluation(tmp_path):
    reason, lines = run(tmp_path, Counting(1.0))
    assert reason == "target"
    state, samples = checkpoint.load(tmp_path, samples_of(lines[-1]))
    assert samples == state["samples"] < MINI.evaluation.first


def test_where_the_loss_is_tracked_at_evaluations_alone_a_checkpoint_follows_each(tmp_path, monkeypatch):
    """So that a kill costs one block at most."""
    monkeypatch.setattr(checkpoint, "SHARE", math.inf)
    often = MINI.model_copy(update={"evaluation": Evaluation(first=500, every=500)})
    reason, lines = run(tmp_path, Counting(0.5), benchmark=often)
    assert (reason, often.tracked_every) == ("budget", 500)
    _, samples = checkpoint.load(tmp_path, samples_of(lines[-1]))
    assert samples == often.budget_samples - 500


@pytest.mark.parametrize("at", [3900, 4000])
def test_a_signal_leaves_a_checkpoint_of_all_that_was_trained(tmp_path, at):
    """Also where an evaluation is due then, which a run that went on from there without it would skip."""
    made = Counting(0.5)
    reason, lines = run(tmp_path, made, interrupted=lambda: made.samples >= at)
    assert reason == "interrupt"
    _, samples = checkpoint.load(tmp_path, samples_of(lines[-1]))
    assert samples == samples_of(lines[-1]) >= at
    assert [samples_of(line) for line in lines if line.key == "eval_accuracy"] == ([] if samples < 4000 else [4000])


@pytest.mark.parametrize(("every", "apart"), [(500, 500), (600, 100), (1000, 100), (5250, 105)])
def test_between_rare_evaluations_the_loss_is_tracked_by_hundredths_of_the_budget(tmp_path, every, apart):
    update = {"evaluation": Evaluation(first=2 * every, every=every)}
    _, lines = run(tmp_path, Counting(0.5), benchmark=MINI.model_copy(update=update))
    tracked = [samples_of(line) for line in lines if line.key == "tracked_stats"]
    assert tracked == [*range(apart, 10_501, apart)]
    evaluated = [samples_of(line) for line in lines if line.key == "eval_accuracy"]
    assert evaluated == sorted({*range(2 * every, 10_501, every), 10_500})


def test_the_log_is_on_the_disk_before_each_checkpoint(tmp_path, monkeypatch):
    """A power cut leaves what was synced; what was not may be lost, whatever the order in which it was written."""
    synced, true = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda at: (synced.append(Path(f"/proc/self/fd/{at}").readlink().name), true(at)))
    monkeypatch.setattr(checkpoint, "SHARE", math.inf)
    run(tmp_path, Counting(0.5))
    assert len(synced) > 2
    assert synced == ["log.txt", "checkpoint.npz.part"] * (len(synced) // 2)


@pytest.mark.parametrize("keep", [False, True])
def test_each_evaluation_logs_the_sum_of_its_state_and_keeps_it_if_asked_to(tmp_path, keep):
    _, lines = run(tmp_path, Counting(0.5), keep)
    evaluations = [line.metadata for line in lines if line.key == "eval_accuracy"]
    assert [each["samples_count"] for each in evaluations] == [*range(4000, 10_001, 1000), 10_500]
    epoch = MINI.dataset.train_samples
    assert [each["epoch_num"] for each in evaluations] == [each["samples_count"] / epoch for each in evaluations]
    sums = [state_sha256({"samples": np.array(each["samples_count"])}) for each in evaluations]
    assert [each["state_sha256"] for each in evaluations] == sums
    kept = {int(path.stem): states.read(path) for path in (tmp_path / states.STATES).glob("*")}
    assert kept.keys() == ({each["samples_count"] for each in evaluations} if keep else set())
    assert all(state["samples"] == at == samples for samples, (state, at) in kept.items())
    assert len(kept) <= checkpoint.evaluations(MINI)


def test_checkpoints_wait_until_they_are_paid_for(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])
    made = Checkpoints(tmp_path, Log(tmp_path / "log.txt"))

    def state():
        now[0] += 2.0
        return {}

    for _ in range(250):
        made.occasion(state, int(now[0]))
        now[0] += 1.0
    _, samples = checkpoint.load(tmp_path, 1000)
    assert samples == 100 + 2 + 200


@pytest.mark.parametrize(("prediction", "loss"), [(math.nan, 1.0), (0.0, math.nan)])
def test_a_model_without_numbers_ends_the_run(tmp_path, prediction, loss):
    reason, lines = run(tmp_path, Counting(prediction, loss))
    assert reason == lines[-1].metadata["reason"] == "diverged"
    assert [line.value for line in lines if line.key == "eval_accuracy"] == ([None] if math.isnan(prediction) else [])
    assert samples_of(lines[-1]) == (4000 if math.isnan(prediction) else 1)  # a loss ends its block at once
    assert not (tmp_path / "predictions.jsonl.part").exists()


def test_no_checkpoint_is_of_a_model_without_numbers(tmp_path):
    made = Counting(0.5)
    made.train_until = lambda samples: TrainStats(samples, math.nan if samples >= 100 else 1.0)
    reason, lines = run(tmp_path, made)
    (tracked,) = [line for line in lines if line.key == "tracked_stats"]
    assert (reason, samples_of(tracked), tracked.value["loss"]) == ("diverged", 100, None)
    assert checkpoint.load(tmp_path, 100) is None


@pytest.mark.parametrize(("seconds", "slices"), [(0.25, 4), (2.0, 1)])
def test_a_signal_is_looked_for_about_once_a_second_or_after_each_sample(tmp_path, monkeypatch, seconds, slices):
    now, made, asked = [0.0], Counting(0.5), []
    monkeypatch.setattr("suite.harness.loop.time.monotonic", lambda: now[0])

    def train_until(samples):
        asked.append(samples - made.samples)
        now[0] += asked[-1] * seconds
        made.samples = samples
        return TrainStats(samples, 1.0)

    made.train_until = train_until
    reason, _ = run(tmp_path, made, interrupted=lambda: len(asked) == 10)
    assert (reason, asked) == ("interrupt", [1, *[slices] * 9])


def test_the_loss_is_tracked_at_an_evaluation_too_where_it_comes_between(tmp_path):
    _, lines = run(
        tmp_path, Counting(0.5), benchmark=MINI.model_copy(update={"evaluation": Evaluation(first=4050, every=1000)})
    )
    tracked = [samples_of(line) for line in lines if line.key == "tracked_stats"]
    assert tracked[38:42] == [3900, 4000, 4050, 4150]
    assert [samples_of(line) for line in lines if line.key == "eval_accuracy"][:2] == [4050, 5050]


def test_predictions_that_the_task_refuses_end_the_run_and_are_kept(tmp_path):
    reason, lines = run(tmp_path, Counting("many\x1b"))
    (evaluation,) = [line for line in lines if line.key == "eval_accuracy"]
    assert (evaluation.value, evaluation.metadata["refused"]) == (None, shown("many\x1b is no number"))
    assert evaluation.metadata["refused"].isprintable()
    assert [line.key for line in lines[-3:]] == ["eval_stop", "block_stop", "run_stop"]
    assert (reason, lines[-1].metadata["status"], lines[-1].metadata["reason"]) == ("refused", "aborted", "refused")
    assert (tmp_path / "predictions.jsonl").read_text() == '"many\\u001b"\n'


@pytest.mark.parametrize(
    ("prediction", "reason", "saved"),
    [(0.5, "interrupt", 4000), (1.0, "target", 100)],  # of a run that ended by itself nothing more is saved
)
def test_a_signal_during_an_evaluation_ends_the_run_after_it(tmp_path, monkeypatch, prediction, reason, saved):
    monkeypatch.setattr(checkpoint, "SHARE", 1e-12)  # after the first, no other is due
    made, predicted = Counting(prediction), []
    monkeypatch.setattr(made, "predict", lambda data: predicted.append(data) or [prediction])
    found, lines = run(tmp_path, made, interrupted=lambda: bool(predicted))
    assert (found, lines[-1].metadata["reason"]) == (reason, reason)
    assert [samples_of(line) for line in lines if line.key == "block_start"] == [0]
    assert [samples_of(line) for line in lines if line.key == "eval_accuracy"] == [4000]
    assert checkpoint.load(tmp_path, samples_of(lines[-1]))[1] == saved


def test_throughput_is_that_of_all_samples_since_the_last_line(tmp_path, monkeypatch):
    """Of a second for the first sample, and a thousandth for each later one."""
    now, implementation = [0.0], Counting(0.5)
    monkeypatch.setattr("suite.harness.loop.time.monotonic", lambda: now[0])
    train_until = implementation.train_until

    def training(samples):
        now[0] += (samples - implementation.samples) / 1000 + (implementation.samples == 0) * 0.999
        return train_until(samples)

    monkeypatch.setattr(implementation, "train_until", training)
    _, lines = run(tmp_path, implementation)
    first, second, *_ = (line.value["throughput"] for line in lines if line.key == "tracked_stats")
    assert (first, second) == (pytest.approx(100 / 1.099), pytest.approx(1000))


def test_what_is_not_known_of_an_evaluation_is_none(tmp_path):
    endless = MINI.model_copy(update={"dataset": MINI.dataset.model_copy(update={"train_samples": None})})
    metrics = {"accuracy": 1.0, "calibration": math.nan}
    _, lines = run(tmp_path, Counting(1.0), benchmark=endless, score=lambda _: metrics)
    (told,) = [line.metadata for line in lines if line.key == "eval_accuracy"]
    assert (told["epoch_num"], told["metrics"]) == (None, {"accuracy": 1.0, "calibration": None})
