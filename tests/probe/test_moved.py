"""The bytes that an operator moves, held to what it reads and writes."""

from collections.abc import Callable

import pytest
import torch

from suite.harness.implementation import Device
from suite.probe import instruments
from tests.probe.made import Calls


def moved(framework: str, call: Callable[[], object]) -> dict[str, int | None]:
    """The bytes that each operator of a call moves, by its kind."""
    watched = instruments.load(framework).watch(lambda: Calls(call), Device("cpu", "fp32"))
    return {each.operator.removeprefix("aten."): each.bytes for each in watched.trace(1).calls}


@pytest.mark.slow  # imports TensorFlow
def test_what_is_not_picked_is_not_moved():
    """500 numbers of 50,000 for each of 25 users."""
    import tensorflow as tf

    pick, numbers, places = tf.function(tf.gather), tf.zeros(50_000, tf.int64), tf.zeros((25, 500), tf.int64)
    assert moved("tensorflow", lambda: pick(numbers, places)) == {"GatherV2": 3 * 25 * 500 * 8 + 4}


def test_what_is_written_in_place_is_moved():
    """Adam reads a gradient and its step's number, and reads and writes a weight and two moments."""
    weights, others = torch.zeros(1000), torch.zeros(1000)
    weights.grad = torch.zeros(1000)
    optimizer = torch.optim.Adam([weights], fused=True)

    def step() -> None:
        optimizer.step()
        torch._foreach_add_([weights, others], 1.0)
        torch._foreach_copy_([weights], [others])
        torch._foreach_zero_([weights, others])
        torch.softmax(weights, 0, out=others)

    told = {"_fused_adam_": 28_004, "_foreach_add_": 16_000, "_foreach_copy_": 8000, "_foreach_zero_": 8000}
    told["softmax"] = 8000  # one is read, the other only written
    assert moved("torch", step).items() >= told.items()


def test_what_only_looks_otherwise_at_its_numbers_moves_none():
    def step() -> None:
        torch.zeros(4, 3).t_().unsqueeze_(0).squeeze_().unsafe_split(1)

    assert moved("torch", step) == {"zeros": 48, "t_": 0, "unsqueeze_": 0, "squeeze_": 0, "unsafe_split": 0}


def test_of_a_part_only_the_part_is_moved():
    """Two columns are read and written, by two indices of 8 bytes and from one number; gradients read no scores.

    Two rows are read for their sum of 1000 numbers, and three whole numbers say where.
    """
    square, row, places = torch.zeros(1000, 1000), torch.zeros(1, 1000), torch.tensor([1, 2])
    nothing, targets = torch.tensor(0.0), torch.zeros(1000, dtype=torch.long)

    def step() -> None:
        row.expand(1000, 1000) + square
        square[:, places] = nothing
        torch.nn.functional.embedding_bag(places.view(1, 2), square, mode="sum")
        with torch.enable_grad():
            scores, planes = (torch.zeros(shape, requires_grad=True) for shape in ((1000, 1000), (1, 1, 1000, 1000)))
            torch.nn.functional.nll_loss(scores, targets).backward()
            torch.nn.functional.max_pool2d(planes, 2).sum().backward()

    found = moved("torch", step)
    assert found["add"] == 8_004_000
    assert found["index_put_"] == 2 * 8000 + 2 * 8 + 4
    assert found["_embedding_bag_forward_only"] == 2 * 4000 + 4000 + 2 * 8 + 3 * 8
    assert found["nll_loss_forward"] == 4000 + 8000 + 2 * 4
    assert found["nll_loss_backward"] == 4_000_000 + 8000 + 2 * 4
    assert found["max_pool2d_with_indices_backward"] == 4_000_000 + 250_000 * 8 + 4
