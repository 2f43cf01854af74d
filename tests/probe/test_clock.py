"""level=clock: blocks of a run's loop, each with its evaluation."""

import errno
import gc
import weakref
from itertools import count, cycle
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from suite import config
from suite.config.models import System
from suite.errors import UserError
from suite.harness import contract, memory
from suite.measure import machine, sampler, systems
from suite.measure.load import Load
from suite.probe import measuring, record
from suite.probe.__main__ import main
from suite.probe.record import Conditions
from suite.probe.subject import Subject
from suite.probe.tracing import Phases
from suite.record.clock import Clock
from tests.command import PROJECT

FIRST_STEPS = 70
ALIKE = PROJECT / "tests/implementations/alike"
SLOW_TO_PREDICT = """
import math
import time

class Slow(NearestMean):
    def train_until(self, samples):
        time.sleep(0.005 * max(math.ceil(samples / self.size) - self.step, 0))
        return super().train_until(samples)

    def predict(self, data):
        time.sleep(0.5)
        return super().predict(data)

build = Slow
"""


def clock(out, *words, implementation=ALIKE, seconds=0.001):
    """The only cell of a probe of the smallest task."""
    task = ["task=image_classification", "scale=mini", f"implementation={implementation}", "hw=cpu"]
    assert main(["level=clock", *task, f"seconds={seconds}", *words, "mlflow=false", f"out={out}"]) == 0
    (cell,) = record.read(out).cells
    return cell


@pytest.mark.slow
def test_first_steps_past_the_budget_are_no_block(tmp_path, monkeypatch):
    """They train on 28,000 samples; the budget is 24,000."""
    monkeypatch.setattr(measuring, "LEAST_WARM_UP_STEPS", FIRST_STEPS)
    monkeypatch.setattr(measuring, "MOST_WARM_UP_STEPS", FIRST_STEPS)
    task = ["task=image_classification", "scale=mini", "batch=400", "hw=cpu"]
    assert main(["level=clock", *task, "seconds=0.05", "repeats=1", "mlflow=false", f"out={tmp_path}"]) == 0
    (cell,) = record.read(tmp_path).cells
    assert cell.figures["step"].value > 0
    assert cell.rows[0].values["samples"] <= FIRST_STEPS * 400


def test_it_trains_for_as_long_as_the_last_evaluation_took(tmp_path):
    """Of a step of 5 ms and an evaluation of half a second a repeat is one step, then 30: to the first of a run."""
    own = tmp_path / "slow"
    own.mkdir()
    (own / "__init__.py").write_text((ALIKE / "__init__.py").read_text() + SLOW_TO_PREDICT)
    cell = clock(tmp_path / "probe", "repeats=3", implementation=own)
    first, second, third = (row.values["samples"] for row in cell.rows)
    assert second - first >= 1000
    assert third - second >= 1000
    later = [row.values["evaluation"] for row in cell.rows[1:]]
    assert cell.figures["evaluation"].value == pytest.approx(sum(later) / 2)


def test_where_steps_differ_along_a_run_each_repeat_is_at_another_place(tmp_path, monkeypatch):
    own = Subject.benchmark
    monkeypatch.setattr(Subject, "benchmark", lambda self: own(self).model_copy(update={"uneven_steps": "images grow"}))
    cell = clock(tmp_path, "repeats=4")
    first: dict[float, float] = {}
    for row in cell.rows:
        first.setdefault(row.values["repeat"], row.values["samples"])
    budget = config.benchmark("image_classification", "mini").budget_samples
    for samples, place in zip(first.values(), (0.5, 3.5, 6.5, 1.5), strict=True):
        assert 0 < 8 * samples / budget - place < 1


def test_a_step_takes_its_part_of_a_block(tmp_path, monkeypatch):
    """By a clock that goes a millisecond further with each sample."""
    now, train = [0], contract.Checked.train_until

    def training(made, samples):
        stats = train(made, samples)
        now[0] = stats.samples
        return stats

    monkeypatch.setattr(contract.Checked, "train_until", training)
    monkeypatch.setattr(Clock, "now_ms", lambda _: now[0])
    cell = clock(tmp_path, "repeats=3")
    assert {row.values["step"] for row in cell.rows} == {cell.figures["samples/step"].value}


def test_the_data_phase_is_a_share_of_steps_that_are_watched_too(tmp_path, monkeypatch):
    """A step that is taken apart takes longer than one that a GPU replays: its data phase alone may take as long."""
    watched = SimpleNamespace(phases=lambda steps: Phases(steps, 400.0, {"data": 100.0}))
    monkeypatch.setattr(Subject, "watched", lambda _: watched)
    assert clock(tmp_path, "repeats=1").figures["data phase"].value == 25


def test_power_is_that_of_the_repeats_alone(tmp_path, monkeypatch):
    """The CPUs are busy from the begin of a repeat to its end, and idle between two of them."""
    busy = cycle((0.0, 1.0))
    meter = SimpleNamespace(read=lambda: Load(next(busy), 0.0, 0.0))
    monkeypatch.setattr(sampler, "LoadMeter", lambda workers: meter)
    monkeypatch.setattr(sampler.Counters, "joules", lambda _: (None, None, None))
    monkeypatch.setattr(sampler, "INTERVAL_S", 600)
    cell = clock(tmp_path, "repeats=3")
    found = machine.detect()
    ceiling = systems.power_ceiling(systems.system_here("cpu", found), found)
    assert cell.figures["power"].value == pytest.approx(ceiling)


def test_power_that_is_not_known_of_every_repeat_is_not_known(tmp_path, monkeypatch):
    busy = iter((0.0, 1.0))
    meter = SimpleNamespace(read=lambda: Load(next(busy, None), 0.0, 0.0))  # until the end of the first
    monkeypatch.setattr(sampler, "LoadMeter", lambda workers: meter)
    monkeypatch.setattr(sampler.Counters, "joules", lambda _: (None, None, None))
    monkeypatch.setattr(sampler, "INTERVAL_S", 600)
    cell = clock(tmp_path, "repeats=2")
    assert cell.figures["power"].value is None
    assert "power is estimated" in cell.notes


def test_power_of_the_processors_alone_is_not_that_of_a_gpu(tmp_path, monkeypatch):
    joules = count(0.0, 10.0)
    monkeypatch.setattr(sampler.Counters, "joules", lambda _: (None, next(joules), None))
    monkeypatch.setattr(System, "device_kind", "gpu")
    cell = clock(tmp_path, "repeats=1")
    assert cell.figures["power"].value is None
    assert "power not known: rapl alone tells it, without the accelerators" in cell.notes


DIVERGES = """
from suite.harness.implementation import TrainStats

class Diverges(NearestMean):
    def train_until(self, samples):
        return TrainStats(super().train_until(samples).samples, float("nan"))

build = Diverges
"""


@pytest.mark.timeout(400)
def test_what_diverges_before_it_is_evaluated_is_told(tmp_path):
    own = tmp_path / "diverges"
    own.mkdir()
    (own / "__init__.py").write_text((ALIKE / "__init__.py").read_text() + DIVERGES)
    with pytest.raises(UserError, match="training diverged before its first evaluation"):
        clock(tmp_path / "probe", "repeats=1", implementation=own, seconds=0.05)


def test_a_full_disk_of_temporary_folders_is_named_with_its_mend(tmp_path, monkeypatch):
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr("suite.harness.loop.write_predictions", Mock(side_effect=full))
    with pytest.raises(UserError, match=r": No space left on device; name a folder on a larger disk as TMPDIR$"):
        clock(tmp_path / "probe", "repeats=1")


def test_an_implementation_that_was_dropped_keeps_no_memory_from_the_next(monkeypatch):
    """One that a repeat built holds itself by what it compiles, and would wait for Python's collector."""
    system = systems.resolve(config.system("cpu"), machine.detect())
    conditions = Conditions(
        task="image_classification", scale="mini", framework="torch", mode="train", precision="fp32"
    )
    monkeypatch.setattr(memory, "GROWN", -(1 << 40))
    gc.disable()
    try:
        dropped = weakref.ref(Subject(conditions, system, 1.0).inside().made.inner)
        Subject(conditions, system, 1.0).inside()
        assert dropped() is None
    finally:
        gc.enable()
