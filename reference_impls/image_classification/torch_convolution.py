"""A 3x3 convolution whose weight's gradient is quick on CPUs with AMX too.

There oneDNN 3.10.2 (in PyTorch 2.11) takes up to ten times as long, for 256 channels in bf16, as nine matrix products,
one for each place of the kernel. docs/implementations.md tells what that means for a step.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.grad import conv2d_input

AMX = bool(torch.cpu.get_capabilities().get("amx_bf16"))
CHANNELS = 256  # from this many on the products are quicker; with 64 they take longer


class Conv2d(nn.Conv2d):
    """nn.Conv2d with a kernel of 3x3, padding 1 and no bias."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width, 3, padding=1, bias=False)
        self.by_products = AMX and inputs >= CHANNELS

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[B, inputs, H, W] to [B, width, H, W]."""
        if self.by_products and x.device.type == "cpu" and x.dtype == torch.bfloat16:
            convolved: torch.Tensor = Convolution.apply(x, self.weight.to(x.dtype))  # type: ignore[no-untyped-call]
            return convolved
        return super().forward(x)


class Convolution(torch.autograd.Function):
    """The convolution of x [B, C, H, W] with a weight [O, C, 3, 3]."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """[B, O, H, W]."""
        ctx.save_for_backward(x, weight)
        return F.conv2d(x, weight, padding=1)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The gradients of x and of the weight."""
        x, weight = ctx.saved_tensors
        (gradient,) = gradients
        by_input = conv2d_input(x.shape, weight, gradient, padding=1)  # type: ignore[no-untyped-call]
        return by_input, by_weight(x, gradient)


def by_weight(x: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """The weight's gradient [O, C, 3, 3], from x [B, C, H, W] and the output's gradient [B, O, H, W]."""
    (_, channels, height, width), outputs = x.shape, gradient.shape[1]
    padded = F.pad(x.permute(0, 2, 3, 1), (0, 0, 1, 1, 1, 1))
    by_output = gradient.permute(0, 2, 3, 1).reshape(-1, outputs).T
    found = x.new_empty(outputs, 3, 3, channels)
    for row in range(3):
        for column in range(3):
            seen = padded[:, row : row + height, column : column + width]
            found[:, row, column] = by_output @ seen.reshape(-1, channels)
    return found.permute(0, 3, 1, 2)
