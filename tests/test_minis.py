"""The minis from end to end, through the commands; most in TensorFlow, which takes the same steps, only in `soak`."""

import json

import pytest

from tests.command import run
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
def test_a_mini_reaches_its_target_and_passes_review(task, framework, tmp_path_factory):
    review = run(trained(tmp_path_factory, task, framework), "suite.review", "evidence", "--json")
    verdict = json.loads(review.stdout)
    assert (review.returncode, verdict["verdict"], verdict["converged"]) == (0, "pass", True)
