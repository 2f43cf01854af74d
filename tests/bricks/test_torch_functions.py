"""Which calls of a model's own code are in bricks, and which are left out."""

import torch

from suite.bricks.chaining import Bricks
from suite.bricks.frameworks.torch_recording import Recorder
from suite.bricks.frameworks.torch_running import Runner
from suite.harness.implementation import Device
from tests.bricks import made


class Doubled(torch.autograd.Function):
    """What it makes of a tensor has a gradient only when it is returned."""

    @staticmethod
    def forward(ctx, x):
        """Twice `x`."""
        return torch.add(x, x)

    @staticmethod
    def backward(ctx, gradient):
        """Twice the gradient."""
        return torch.add(gradient, gradient)


def test_what_a_function_of_ones_own_makes_has_a_gradient():
    given = torch.randn(4, 3, requires_grad=True)
    with Recorder() as recorder:
        doubled = Doubled.apply(given)
        torch.mul(doubled, doubled)
    assert [called.gradient for called in recorder.recorded.calls] == [False, True]
    bricks = Bricks(1)
    bricks.add(made.CONDITIONS, [recorder.recorded])
    brick = next(each for each in bricks.made if each.calls[0].op == "torch.mul")
    assert [tensor.gradient for tensor in brick.tensors] == [True]
    runner = Runner(brick, Device("cpu", "fp32"), "train")
    runner.prepare()
    assert runner.run() > 0


def test_what_has_no_place_in_the_table_is_counted():
    with Recorder() as recorder:
        torch.linalg.svdvals(torch.ones(3, 3).abs())
    assert [called.call.op for called in recorder.recorded.calls] == ["torch.ones", "Tensor.abs"]
    assert recorder.recorded.left_out.total() == 1


def test_what_takes_or_makes_a_tensor_that_no_brick_can_hold_is_left_out():
    with Recorder() as recorder:
        many = torch.ones(4, 8).reshape(2, 2, 2, 2, 2, 1, 1, 1, 1)
        torch.relu(many.sum((0, 1, 2)))
    assert [called.call.op for called in recorder.recorded.calls] == ["torch.ones", "torch.relu"]
    assert recorder.recorded.left_out == {"torch.Tensor.reshape": 1, "torch.Tensor.sum": 1}


def test_what_is_sparse_or_nested_or_in_another_layout_is_left_out():
    """A dense tensor of the same shape would take another time."""
    ones, table = torch.ones(3, 3), torch.zeros(3, 3)
    sparse, rows = torch.eye(3).to_sparse(), torch.eye(3).to_sparse_csr()
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    with Recorder() as recorder:
        table.add_(sparse)
        torch.mm(rows, ones)
        nested.to_padded_tensor(0.0)
        torch.ones(1, 1, 2, 2, 2).contiguous(memory_format=torch.channels_last_3d)
    assert [called.call.op for called in recorder.recorded.calls] == ["torch.ones"]
    assert recorder.recorded.left_out.total() == 4
