"""A 3x3 convolution that trains quickly on CPUs with AMX too, where its images are only a few pixels wide.

There, for 256 channels in bf16, oneDNN 3.10.2 (in PyTorch 2.11) takes 2.5 to 7 times as long for the weight's gradient
as where several images of 7 to 2 pixels stand side by side, some `COLUMNS` in all, with columns of zeros between them.
docs/implementations.md tells what that means for a step.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from reference_impls.image_classification.shared import AMX

CHANNELS = 256  # from this many on it pays; with 64 it does not
COLUMNS = 32


class Conv2d(nn.Conv2d):
    """nn.Conv2d with a kernel of 3x3, padding 1 and no bias."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width, 3, padding=1, bias=False)
        self.joins_images = AMX and inputs >= CHANNELS

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[B, inputs, H, W] to [B, width, H, W]."""
        count = COLUMNS // (x.shape[3] + 1)
        in_bf16 = x.device.type == "cpu" and x.dtype == torch.bfloat16
        if self.joins_images and in_bf16 and torch.is_grad_enabled() and count > 1:
            return apart(super().forward(side_by_side(x, count)), count, len(x))
        return super().forward(x)


def side_by_side(images: torch.Tensor, count: int) -> torch.Tensor:
    """Images [B, C, H, W] as [B / `count`, C, H, `count` (W + 1)], each followed by a column of zeros.

    Where `count` does not divide B, images of zeros fill up the last.
    """
    padded = F.pad(images.permute(0, 2, 3, 1), (0, 0, 0, 1, 0, 0, 0, -len(images) % count))
    return padded.view(-1, count, *padded.shape[1:]).transpose(1, 2).flatten(2, 3).permute(0, 3, 1, 2)


def apart(wide: torch.Tensor, count: int, batch: int) -> torch.Tensor:
    """The images [`batch`, C, H, W] that stand side by side in `wide`."""
    groups, channels, height, width = wide.shape
    images = wide.permute(0, 2, 3, 1).reshape(groups, height, count, width // count, channels)[:, :, :, :-1]
    return images.transpose(1, 2).flatten(0, 1)[:batch].permute(0, 3, 1, 2)
