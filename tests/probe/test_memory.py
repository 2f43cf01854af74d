"""What a step holds in memory, held to what is known of the model."""

import pytest

from suite.probe import record
from suite.probe.__main__ import main

FRAMEWORKS = ["torch", pytest.param("tensorflow", marks=pytest.mark.slow)]
MODELS = {"torch": "model=resnet18", "tensorflow": "model=MobileNetV2"}
PARAMETERS = {"torch": 11_689_512, "tensorflow": 3_504_872}  # of the models, as their authors count them


def look(capsys, *words: str) -> record.Cell:
    assert main(["level=memory", *words, "precision=fp32", "repeats=1", "seconds=0.02", "--json"]) == 0
    (cell,) = record.Probe.model_validate_json(capsys.readouterr().out).cells
    assert cell.error is None
    return cell


def megabytes(cell: record.Cell) -> dict[str, float]:
    return {row.name: row.values["MB"] for row in cell.rows}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_weights_gradients_and_momentum_are_as_large_as_each_other(capsys, framework):
    held = megabytes(look(capsys, MODELS[framework], f"framework={framework}", "size=32", "batch=2"))
    assert held["parameters"] == pytest.approx(PARAMETERS[framework] * 4 / 1e6, rel=0.001)
    assert held["optimizer"] == pytest.approx(held["parameters"], rel=0.02)
    assert held["gradients"] == pytest.approx(held["parameters"], rel=0.05)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_peak_is_predicted_from_smaller_batches(capsys, framework):
    cell = look(capsys, MODELS[framework], f"framework={framework}", "size=64", "batch=16")
    assert abs(cell.figures["error"].value) < 10


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_inference_keeps_nothing_for_a_backward_pass(capsys, framework):
    words = (MODELS[framework], f"framework={framework}", "size=64", "batch=8")
    train, infer = (look(capsys, *words, f"mode={mode}") for mode in ("train", "infer"))
    assert megabytes(infer)["saved"] == megabytes(infer)["gradients"] == 0
    assert megabytes(infer)["optimizer"] < 0.001
    assert megabytes(train)["saved"] > megabytes(infer)["temporary"]
    assert infer.figures["peak"].value < train.figures["peak"].value


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_task_is_looked_at(capsys, framework):
    cell = look(capsys, "task=image_classification", "scale=mini", f"framework={framework}")
    held = megabytes(cell)
    assert held["saved"] > 0
    assert held["gradients"] <= held["parameters"] * 1.001
    assert abs(cell.figures["error"].value) < 10
