"""The detector in PyTorch: residual blocks on the way down, one convolution a level on the way up (U-Net), a head."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

from reference_impls.detection.shared import EPSILON, Hyperparameters
from reference_impls.torch_workers import BatchNorm2d


class ConvNorm(nn.Module):
    """A convolution and batch norm; with a stride, patches do not overlap."""

    def __init__(self, inputs: int, outputs: int, side: int, momentum: float, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, side, stride, padding=side // 2 if stride == 1 else 0, bias=False)
        self.norm = BatchNorm2d(outputs, EPSILON, 1 - momentum)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[B, inputs, h, w] to [B, outputs, h / stride, w / stride]."""
        y: torch.Tensor = self.norm(self.conv(x))
        return y


class Residual(nn.Module):
    """ResNet's basic block (He et al. 2016)."""

    def __init__(self, width: int, momentum: float) -> None:
        super().__init__()
        self.first = ConvNorm(width, width, 3, momentum)
        self.second = ConvNorm(width, width, 3, momentum)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[B, width, h, w] to the same."""
        y: torch.Tensor = self.second(F.relu_(self.first(x)))
        y += x
        return F.relu_(y)


class Detector(nn.Module):
    """Cells [B, s * s * C, h, w] to heat logits [B, classes, h, w] and sides in pixels [B, 4, h, w], both float32."""

    def __init__(self, hyper: Hyperparameters, channels: int) -> None:
        super().__init__()
        widths, momentum = hyper.widths, hyper.norm_momentum
        self.classes, self.box_prior = hyper.classes, hyper.box_prior
        stem = ConvNorm(channels * hyper.stride**2, widths[0], 3, momentum)
        halved = [ConvNorm(fine, coarse, 2, momentum, 2) for fine, coarse in pairwise(widths)]
        self.down = nn.ModuleList([stem, *halved])
        self.blocks = nn.ModuleList(
            [
                nn.Sequential(*[Residual(width, momentum) for _ in range(blocks)])
                for width, blocks in zip(widths, hyper.blocks, strict=True)
            ]
        )
        self.lateral = nn.ModuleList([ConvNorm(coarse, fine, 1, momentum) for fine, coarse in pairwise(widths)])
        self.up = nn.ModuleList([ConvNorm(width, width, 3, momentum) for width in widths[:-1]])
        self.head = ConvNorm(widths[0], hyper.head_width, 3, momentum)
        self.output = nn.Conv2d(hyper.head_width, hyper.classes + 4, 1)

    def forward(self, cells: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See the class."""
        x = cells
        levels: list[torch.Tensor] = []
        for down, blocks in zip(self.down, self.blocks, strict=True):
            x = blocks(F.relu_(down(x)))
            levels.append(x)
        for level in reversed(range(len(levels) - 1)):
            x = F.interpolate(self.lateral[level](x), scale_factor=2, mode="nearest")
            x += levels[level]
            x = F.relu_(self.up[level](F.relu_(x)))
        output = self.output(F.relu_(self.head(x))).float()
        return output[:, : self.classes], self.box_prior * output[:, self.classes :].exp()
