"""The minis from end to end, through the commands; most in TensorFlow, which takes the same steps, only in `soak`."""

import json

import pytest

from suite.review.__main__ import main
from tests.minis import trained

TASKS = ("image_classification", "language_modeling", "recommendation", "reinforcement_learning", "speech")
BOTH = TASKS[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "framework"),
    [
        *((task, "torch") for task in TASKS),
        *(pytest.param(task, "tensorflow", marks=() if task == BOTH else pytest.mark.soak) for task in TASKS),
    ],
)
def test_a_mini_reaches_its_target_and_passes_review(task, framework, tmp_path_factory, capsys):
    code = main([str(trained(tmp_path_factory, task, framework) / "evidence"), "--json"])
    verdict = json.loads(capsys.readouterr().out)
    assert (code, verdict["verdict"], verdict["converged"]) == (0, "pass", True)
