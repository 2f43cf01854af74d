"""What a step holds in memory, held to what is known of the model."""

import weakref
from collections import Counter

import pytest

from suite.probe import record
from tests.probe import made

FRAMEWORKS = ["torch", pytest.param("tensorflow", marks=pytest.mark.soak)]  # of which the digits below tell the same
MODELS = {"torch": "model=resnet18", "tensorflow": "model=MobileNetV2"}
PARAMETERS = {"torch": 11_689_512, "tensorflow": 3_504_872}  # of the models, as their authors count them
GONE = weakref.proxy(Counter())  # what it stood for is gone: libraries leave such things in a process


def look(capsys, *words: str) -> list[record.Cell]:
    """The cells of a probe."""
    cells = made.look(capsys, "level=memory", *words, "precision=fp32")
    assert [each.error for each in cells] == [None] * len(cells)
    return cells


def megabytes(cell: record.Cell) -> dict[str, float]:
    return {row.name: row.values["MB"] for row in cell.rows}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_weights_gradients_and_momentum_are_as_large_as_each_other(capsys, framework):
    (cell,) = look(capsys, MODELS[framework], f"framework={framework}", "size=32", "batch=2")
    held = megabytes(cell)
    assert held["parameters"] == pytest.approx(PARAMETERS[framework] * 4 / 1e6, rel=0.001)
    assert held["optimizer"] == pytest.approx(held["parameters"], rel=0.02)
    assert 0.8 < held["gradients"] / held["parameters"] < 1.001  # some come to be used before the others are there


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_peak_is_predicted_from_smaller_batches(capsys, framework):
    (cell,) = look(capsys, MODELS[framework], f"framework={framework}", "size=64", "batch=16")
    assert abs(cell.figures["error"].value) < 10


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_inference_keeps_nothing_for_a_backward_pass(capsys, framework):
    train, infer = look(capsys, MODELS[framework], f"framework={framework}", "size=64", "batch=3", "mode=train,infer")
    assert megabytes(infer)["saved"] == megabytes(infer)["gradients"] == 0
    assert megabytes(infer)["optimizer"] < 0.001
    assert megabytes(train)["saved"] > megabytes(infer)["temporary"]
    assert infer.figures["peak"].value < train.figures["peak"].value


@pytest.mark.slow
def test_an_evaluation_of_any_number_of_examples_is_looked_at_in_tensorflow(capsys):
    words = ["task=image_classification", "scale=mini", "framework=tensorflow", "mode=infer"]
    (cell,) = look(capsys, *words)
    assert megabytes(cell)["saved"] == megabytes(cell)["gradients"] == 0
    assert megabytes(cell)["temporary"] > 0


def test_longer_sequences_hold_more(capsys):
    short, long = look(capsys, "task=translation", "scale=mini", "batch=8", "size=8,16")
    assert 1.8 < megabytes(long)["saved"] / megabytes(short)["saved"] < 2.5
    assert megabytes(long)["parameters"] == megabytes(short)["parameters"]
    assert abs(short.figures["error"].value) < 10


@pytest.mark.soak
def test_shapes_that_depend_on_values_are_told_and_nothing_is_warned_of(capsys, caplog):
    words = ("task=speech", "scale=mini", "size=32", "batch=2")  # transcripts differ in length
    (torch,), (tensorflow,) = (look(capsys, *words, f"framework={each}") for each in ("torch", "tensorflow"))
    held, other = megabytes(tensorflow), megabytes(torch)
    assert "retracing" not in caplog.text
    for part in ("parameters", "buffers", "optimizer"):
        assert held[part] == pytest.approx(other[part], rel=0.05)
    assert held["saved"] > 0


@pytest.mark.slow
def test_both_frameworks_are_looked_at_in_one_sweep(capsys):
    frameworks = ["torch", "tensorflow"]
    cells = look(capsys, "task=image_classification", "scale=mini", f"framework={','.join(frameworks)}", "batch=2")
    assert [each.conditions.framework for each in cells] == frameworks
    for cell in cells:
        held = megabytes(cell)
        assert sum(held.values()) == pytest.approx(cell.figures["peak"].value)
        assert held["gradients"] <= held["parameters"] * 1.001
    one, other = cells
    assert megabytes(one)["parameters"] == pytest.approx(megabytes(other)["parameters"], rel=0.01)


@pytest.mark.slow  # imports TensorFlow
def test_what_a_function_makes_in_one_run_is_not_kept_for_the_next():
    from suite.probe.instruments.tensorflow_memory import held
    from suite.probe.instruments.tensorflow_profile import Event
    from suite.probe.instruments.tensorflow_watch import Noted

    def executed(name: str, start: float, made: int, *given: str) -> tuple[Event, Noted]:
        return Event(name, "Mul", start, 0.5), Noted("Mul", "", "forward", "", 0, 0, (made,), given)

    once = [executed("a", 0, 100), executed("b", 1, 10, "a:0")]
    again = [executed("a", 5, 100), executed("b", 6, 10, "a:0")]
    assert held(once, {}).total() == held(once + again, {}).total() == 110
