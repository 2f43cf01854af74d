"""level=clock: blocks of a run's loop, each with its evaluation."""

import pytest

from suite.probe import measuring, record
from suite.probe.__main__ import main

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
