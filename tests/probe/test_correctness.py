"""Operators held to float64: what is off is told, what cannot be judged is named."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
import torch

from suite.harness.implementation import Device
from suite.probe import instruments
from suite.probe.judging import RANDOM, WHOLE, Output, errors
from suite.probe.levels import operators_correctness
from tests.probe.made import Calls, look

CPU = Device("cpu", "fp32")


def judged(framework: str, function) -> dict[str, object]:
    found = instruments.load(framework).judged(lambda: Calls(function), CPU)
    return {each.operator: each for each in found}


def test_rounding_is_half_a_unit_at_most():
    exact = np.random.default_rng(0).standard_normal(1000)
    for kind in ("float32", "float16"):
        found = errors([Output(exact.astype(kind).astype(np.float64), exact, kind)])
        assert 0.2 < found.ulp < 0.3
        assert 0.48 < found.ulp_99 <= 0.5
        assert found.lost == 0


def test_a_known_error_is_told():
    found = errors([Output(np.array([3.0, 4.0, np.inf, 2.0]), np.array([3.0, 4.5, 1.0, np.inf]), "float32")])
    assert found.l2 == pytest.approx(0.5 / np.hypot(3, 4.5))
    assert found.linf == pytest.approx(0.5 / 4.5)
    assert found.lost == 2


def test_a_wrong_operator_is_found_in_pytorch():
    @torch.library.custom_op("probe_test::thrice", mutates_args=())
    def thrice(x: torch.Tensor) -> torch.Tensor:
        return x * (3 if x.dtype == torch.float64 else 3.3)

    weights = torch.randn(8, 8, requires_grad=True)

    def step() -> None:
        thrice(weights.detach())
        (torch.sigmoid(weights @ weights).sum() + torch.rand(2).sum()).backward()
        weights.detach().argmax()

    found = judged("torch", step)
    first, *_ = operators_correctness.notes(list(found.values()))
    assert first.endswith("more than rounding explains unless large terms cancel: probe_test.thrice")
    assert found["probe_test.thrice"].forward.l2 == pytest.approx(0.1, rel=1e-3)
    assert found["aten.mm"].forward.l2 < 1e-6
    assert found["aten.sigmoid"].gradient.l2 < 1e-6
    assert found["aten.rand"].why == RANDOM
    assert found["aten.argmax"].why == WHOLE


def test_a_wrong_gradient_of_an_operator_of_ones_own_is_found_in_pytorch():
    @torch.library.custom_op("probe_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @torch.library.custom_op("probe_test::no_formula", mutates_args=())
    def no_formula(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_autograd(lambda _, gradient: gradient * (2 if gradient.dtype == torch.float64 else 3))
    weights = torch.randn(8, 8, requires_grad=True)

    found = judged("torch", lambda: (twice(weights).sum().backward(), no_formula(weights)))
    assert found["probe_test.twice"].gradient.l2 == pytest.approx(0.5)
    assert found["probe_test.no_formula"].forward.l2 == 0
    assert found["probe_test.no_formula"].gradient is None


def test_no_gradient_is_taken_of_an_operator_of_a_backward_pass():
    """On a GPU it would never end: the one thread that takes gradients there waits for it."""

    @torch.library.custom_op("probe_test::squared", mutates_args=())
    def squared(x: torch.Tensor) -> torch.Tensor:
        return x * x

    @torch.library.custom_op("probe_test::squared_backward", mutates_args=())
    def squared_backward(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return 2 * x * gradient

    squared_backward.register_autograd(lambda _, gradient: (gradient, gradient))
    squared.register_autograd(
        lambda context, gradient: squared_backward(gradient, *context.saved_tensors),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    weights = torch.randn(8, 8, requires_grad=True)
    found = judged("torch", lambda: squared(weights).sum().backward())
    assert found["probe_test.squared"].gradient.l2 < 1e-6
    assert found["probe_test.squared_backward"].forward.l2 < 1e-6
    assert found["probe_test.squared_backward"].gradient is None


def test_on_how_many_threads_values_differ_is_not_known_where_none_were_tried(capsys, monkeypatch):
    """As on a GPU."""
    library = instruments.load("torch")
    known = library.judged
    monkeypatch.setattr(library, "judged", lambda *given: [replace(each, threads=None) for each in known(*given)])
    words = ("model=squeezenet1_1", "mode=infer", "size=32", "batch=1", "precision=fp32")
    (cell,) = look(capsys, "level=operators-correctness", *words)
    assert cell.figures["differ in repeats"].value == 0
    assert cell.figures["differ by threads"].value is None
    assert cell.notes[-1] == "the same or not: to the last bit, in 3 calls"


def test_numbers_that_complex_ones_give_are_held_to_float64():
    waves = torch.randn(100, 64)
    found = judged("torch", lambda: (torch.fft.irfft(torch.fft.rfft(waves)), torch.fft.rfft(waves).abs()))
    for name in ("aten._fft_c2r", "aten.abs"):
        assert 1e-9 < found[name].forward.l2 < 1e-6
    assert found["aten._fft_r2c"].why == "numbers of complex64"


@pytest.mark.slow
def test_operations_are_judged_in_tensorflow():
    weights = tf.Variable(tf.random.stateless_normal((4000,), (1, 2)))

    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.sigmoid(weights * 1.1))
        tape.gradient(loss, weights)
        tf.reduce_sum(tf.cast(weights, tf.bfloat16) + 1)
        tf.random.normal((2,))
        tf.argmax(weights)

    found = judged("tensorflow", tf.function(step))
    assert found["Sigmoid"].forward.l2 < 1e-6
    assert found["Sigmoid"].gradient.l2 < 1e-6
    assert found["Sigmoid"].threads is True
    assert 0.1 < found["Cast"].forward.ulp < 0.5
    assert found["RandomStandardNormal"].why == RANDOM
    assert found["ArgMax"].why == WHOLE


def test_all_operators_of_a_task_are_judged_or_named(capsys):
    (cell,) = look(capsys, "level=operators-correctness", "task=image_classification", "scale=mini", "precision=fp32")
    assert cell.error is None
    assert all(row.values["L2"] < 1e-3 for row in cell.rows)
    assert {row.values["repeats"] for row in cell.rows} <= {"same", "differ"}
    assert cell.figures["judged"].value == len({row.name.split()[0] for row in cell.rows}) > 20
    assert any("aten.convolution" in row.name and row.values["gradient L2"] for row in cell.rows)
    assert any(note.startswith(f"not judged, {WHOLE}: ") for note in cell.notes)
    assert cell.columns == operators_correctness.COLUMNS
