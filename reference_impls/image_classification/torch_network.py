"""The network of image classification in PyTorch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from reference_impls.image_classification.shared import CLASSES, EPSILON, Hyperparameters
from reference_impls.image_classification.torch_convolution import Conv2d
from reference_impls.torch_workers import BatchNorm2d


class BatchNorm(BatchNorm2d):
    """Batch normalisation with a bias and no scale; constant ones stand in for the scale.

    Without them PyTorch's kernel for GPUs gives the bias an empty gradient (PyTorch 2.11).
    """

    def __init__(self, width: int, momentum: float) -> None:
        super().__init__(width, EPSILON, 1 - momentum)
        del self.weight
        self.register_buffer("weight", torch.ones(width), persistent=False)


class Block(nn.Module):
    """Two 3x3 convolutions, the first of which halves the side."""

    def __init__(self, inputs: int, width: int, momentum: float) -> None:
        super().__init__()
        self.conv1 = Conv2d(inputs, width)
        self.norm1 = BatchNorm(width, momentum)
        self.conv2 = Conv2d(width, width)
        self.norm2 = BatchNorm(width, momentum)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[B, inputs, S, S] to [B, width, S // 2, S // 2]."""
        x = F.gelu(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        return F.gelu(self.norm2(self.conv2(x)))


class Network(nn.Module):
    """Whitening, blocks, maximum over positions, head."""

    def __init__(self, channels: int, hyper: Hyperparameters) -> None:
        super().__init__()
        self.whiten = nn.Conv2d(channels, 8 * channels, 2)
        self.whiten.weight.requires_grad_(False)
        inputs = (8 * channels, *hyper.widths)
        self.blocks = nn.ModuleList(
            Block(i, width, hyper.norm_momentum) for i, width in zip(inputs, hyper.widths, strict=False)
        )
        self.head = nn.Linear(hyper.widths[-1], CLASSES, bias=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits float32 [B, classes] of images [B, C, S, S]."""
        x = F.gelu(self.whiten(images))
        for block in self.blocks:
            x = block(x)
        # not amax, whose gradient compares numbers with the maximum: if a compiler rounds them otherwise, none is equal
        x = F.max_pool2d(x, x.shape[2:]).flatten(1)
        logits: torch.Tensor = self.head(x).float() / self.head.in_features
        return logits
