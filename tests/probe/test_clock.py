"""level=clock: blocks of a run's loop, each with its evaluation."""

import pytest

from suite import config
from suite.probe import measuring, record
from suite.probe.__main__ import main
from suite.probe.subject import Subject
from tests.command import PROJECT

FIRST_STEPS = 70


@pytest.mark.slow
def test_first_steps_past_the_budget_are_no_block(tmp_path, monkeypatch):
    """They train on 28,000 samples, if this machine takes them in four seconds; the budget is 24,000."""
    monkeypatch.setattr(measuring, "MOST_WARM_UP_STEPS", FIRST_STEPS)
    task = ["task=image_classification", "scale=mini", "batch=400", "hw=cpu"]
    assert main(["level=clock", *task, "seconds=4", "repeats=1", "mlflow=false", f"out={tmp_path}"]) == 0
    (cell,) = record.read(tmp_path).cells
    assert cell.figures["step"].value > 0
    assert cell.rows[0].values["samples"] <= FIRST_STEPS * 400


def test_where_steps_differ_along_a_run_each_repeat_is_at_another_place(tmp_path, monkeypatch):
    own = Subject.benchmark
    monkeypatch.setattr(Subject, "benchmark", lambda self: own(self).model_copy(update={"uneven_steps": "images grow"}))
    words = ["task=image_classification", "scale=mini", f"implementation={PROJECT / 'tests/implementations/alike'}"]
    assert main(["level=clock", *words, "hw=cpu", "seconds=0.001", "repeats=4", "mlflow=false", f"out={tmp_path}"]) == 0
    (cell,) = record.read(tmp_path).cells
    first: dict[float, float] = {}
    for row in cell.rows:
        first.setdefault(row.values["repeat"], row.values["samples"])
    budget = config.benchmark("image_classification", "mini").budget_samples
    assert [int(8 * samples / budget) for samples in first.values()] == [0, 3, 6, 1]
