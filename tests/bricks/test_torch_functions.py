"""What an autograd.Function of a model's own makes is in bricks as what any call makes."""

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


def test_what_it_makes_has_a_gradient():
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
