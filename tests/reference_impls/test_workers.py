"""Two and three workers take the steps of one: same samples, same parameters, same predictions in order.

PyTorch in float64, where rounding stays at 1e-14 through all steps. TensorFlow in fp32 for as few steps as keep it
small: a difference in the last bit grows with each step, and where the sign of an activation, or of a gradient that
Adam divides by its size, hangs on it, at once: in detection in the first. Dropout is off.
"""

from functools import cache

import numpy as np
import pytest

from reference_impls.shares import part, require, share
from suite import config
from suite.errors import UserError
from suite.harness.declared import by_reference
from suite.harness.implementation import frameworks
from tests.reference_impls.cases import worker
from tests.workers import PILOTS, compare, start

TASKS = {
    framework: [
        task
        for task in config.names("task")
        if framework in frameworks(task) and by_reference(task, config.framework(framework)).accelerators > 1
    ]
    for framework in ("torch", "tensorflow")
}
STEPS = {
    "torch": dict.fromkeys([*TASKS["torch"], *PILOTS], 4)
    | {"reinforcement_learning": 2}  # iterations of 80 gradient steps; a second each
    | {"translation": 20},  # before which words are near ties
    "tensorflow": dict.fromkeys(TASKS["tensorflow"], 10)
    | {"reinforcement_learning": 2, "detection": 1, "image_classification-pilot": 4, "translation-pilot": 6},
}
PRECISION = {"torch": "fp64", "tensorflow": "fp32"}
FURTHEST = {"torch": 1e-10, "tensorflow": 1e-4}
BY_THREE = ["image_classification", "recommendation", "reinforcement_learning"]  # whose batches do not divide by three
SHARED = [
    *((framework, 2, task) for framework in STEPS for task in STEPS[framework]),
    *((framework, 3, task) for framework in STEPS for task in BY_THREE),
    *(("torch", 3, task) for task in PILOTS),
]
# One task of three workers says that shares differ, one of TensorFlow that gradients are summed; the others soak.
QUICK = [
    *(("torch", 2, task) for task in TASKS["torch"] if task != "translation"),
    ("torch", 2, "translation-pilot"),
    ("torch", 3, "image_classification"),
    ("tensorflow", 2, "recommendation"),
]
CASES = [pytest.param(*each, each in QUICK, marks=() if each in QUICK else pytest.mark.soak) for each in SHARED]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder with what so many workers of a framework have of each task, in the same processes."""

    @cache
    def folder(framework: str, size: int, quick: bool):
        out = tmp_path_factory.mktemp(f"{framework}-{size}")
        tasks = {
            each[2] for each in SHARED if (each in QUICK) == quick and each[0] == framework and size in (1, each[1])
        }
        assert start(framework, PRECISION[framework], size, {task: STEPS[framework][task] for task in tasks}, out)
        return out

    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "size", "task", "quick"), CASES)
def test_several_workers_take_the_steps_of_one(trained, framework, size, task, quick):
    found = compare(task, trained(framework, 1, quick), trained(framework, size, quick), size)
    assert found.alike
    assert found.parameters <= FURTHEST[framework]
    assert found.loss <= FURTHEST[framework]
    if framework == "torch":
        assert found.same_predictions == found.predictions


@pytest.mark.soak
@pytest.mark.parametrize("task", ["detection", "image_classification", "language_modeling-pilot", "translation-pilot"])
def test_compiled_workers_take_the_steps_of_those_that_are_not(tmp_path, task):
    eager, compiled = tmp_path / "eager", tmp_path / "compiled"
    assert start("torch", "fp32", 2, {task: 2}, eager)
    assert start("torch", "fp32", 2, {task: 2}, compiled, compiled=True)
    assert compare(task, eager, compiled, 2).parameters <= 1e-6


@pytest.mark.parametrize(("count", "size"), [(1, 1), (7, 1), (7, 3), (3, 3), (2, 5), (0, 2)])
def test_shares_follow_one_another_and_differ_by_one_at_most(count, size):
    shares = [share(np.arange(count), worker(rank, size)) for rank in range(size)]
    assert [number for each in shares for number in each] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    assert [part(count, worker(rank, size)) for rank in range(size)][-1].stop == count


def test_more_workers_than_parts_are_one_line():
    require(worker(0, 4), 4, "streams")
    with pytest.raises(UserError, match="5 workers cannot share the 4 streams of a step: take 4 workers at most"):
        require(worker(0, 5), 4, "streams")
