"""What a step holds in memory, held to what is known of the model."""

import subprocess
import sys

import pytest

from suite.probe import record
from suite.record.system import ROOT

FRAMEWORKS = ["torch", pytest.param("tensorflow", marks=pytest.mark.slow)]
MODELS = {"torch": "model=resnet18", "tensorflow": "model=MobileNetV2"}
PARAMETERS = {"torch": 11_689_512, "tensorflow": 3_504_872}  # of the models, as their authors count them


def look(*words: str) -> record.Cell:
    """The only cell of a probe in a process of its own, as users start it: what others left is not in its figures."""
    call = [sys.executable, "-m", "suite.probe", "level=memory", *words, "precision=fp32", "repeats=1", "seconds=0.02"]
    done = subprocess.run([*call, "--json"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (cell,) = record.Probe.model_validate_json(done.stdout).cells
    assert cell.error is None
    return cell


def megabytes(cell: record.Cell) -> dict[str, float]:
    return {row.name: row.values["MB"] for row in cell.rows}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_weights_gradients_and_momentum_are_as_large_as_each_other(framework):
    held = megabytes(look(MODELS[framework], f"framework={framework}", "size=32", "batch=2"))
    assert held["parameters"] == pytest.approx(PARAMETERS[framework] * 4 / 1e6, rel=0.001)
    assert held["optimizer"] == pytest.approx(held["parameters"], rel=0.02)
    assert held["gradients"] == pytest.approx(held["parameters"], rel=0.05)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_peak_is_predicted_from_smaller_batches(framework):
    cell = look(MODELS[framework], f"framework={framework}", "size=64", "batch=16")
    assert abs(cell.figures["error"].value) < 10


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_inference_keeps_nothing_for_a_backward_pass(framework):
    words = (MODELS[framework], f"framework={framework}", "size=64", "batch=8")
    train, infer = (look(*words, f"mode={mode}") for mode in ("train", "infer"))
    assert megabytes(infer)["saved"] == megabytes(infer)["gradients"] == 0
    assert megabytes(infer)["optimizer"] < 0.001
    assert megabytes(train)["saved"] > megabytes(infer)["temporary"]
    assert infer.figures["peak"].value < train.figures["peak"].value


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_task_is_looked_at(framework):
    cell = look("task=image_classification", "scale=mini", f"framework={framework}")
    held = megabytes(cell)
    assert held["saved"] > 0
    assert held["gradients"] <= held["parameters"] * 1.001
    assert abs(cell.figures["error"].value) < 10
