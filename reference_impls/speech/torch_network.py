"""The parts of speech recognition in PyTorch: recordings on the device, SpecAugment, the network."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from reference_impls.speech import shared
from reference_impls.speech.shared import SPREAD, SUBSAMPLING, Hyperparameters
from reference_impls.torch_layers import LayerNorm
from reference_impls.torch_shared import on_device, unwritten


class Recordings(nn.Module):
    """Features of recordings, one after another; they stay on the device."""

    features: torch.Tensor  # uint8 [all frames, mels]
    frames: torch.Tensor  # int64 [N], of each
    starts: torch.Tensor  # int64 [N], where each begins
    means: torch.Tensor  # float32 [N, mels], the mean spectrum of each

    def __init__(self, features_shape: tuple[int, int], count: int) -> None:
        super().__init__()
        self.register_buffer("features", torch.zeros(features_shape, dtype=torch.uint8))
        self.register_buffer("frames", torch.full((count,), min(shared.LONGEST, features_shape[0])))
        self.register_buffer("starts", torch.zeros(count, dtype=torch.int64))
        self.register_buffer("means", torch.zeros(count, features_shape[1]))

    def fill(self, features: np.ndarray, frames: np.ndarray) -> None:
        """Take over recordings, in place."""
        device = self.features.device
        self.features.copy_(unwritten(features))
        self.frames.copy_(on_device(np.array(frames, np.int64), device))
        self.starts.copy_(on_device(shared.starts(frames), device))
        whose = on_device(np.repeat(np.arange(len(frames)), frames), device)
        sums = torch.zeros_like(self.means).index_add_(0, whose, self.features.float())
        self.means.copy_(sums / self.frames[:, None])

    def forward(self, chosen: torch.Tensor, speed: torch.Tensor, frames: torch.Tensor, time: int) -> torch.Tensor:
        """Features float32 [B, time, mels] of `chosen` [B] at `speed` [B], by linear interpolation.

        Zero from `frames` [B] on; each recording's mean is zero.
        """
        last, first = self.frames[chosen, None] - 1, self.starts[chosen, None]
        frame = torch.arange(time, device=chosen.device)
        position = torch.minimum(frame * speed[:, None], last)
        before = position.long()
        after = torch.minimum(before + 1, last)
        share = (position - before)[..., None]
        features = torch.lerp(self.features[first + before].float(), self.features[first + after].float(), share)
        features = (features - self.means[chosen, None]) / SPREAD
        return features * (frame < frames[:, None])[..., None]


def masked(features: torch.Tensor, bands: torch.Tensor, spans: torch.Tensor) -> torch.Tensor:
    """SpecAugment: features [B, T, mels], zero (the mean) in bands of mels [B, n, 2] and spans of frames [B, m, 2]."""
    mels, frames = covered(bands, features.shape[2]), covered(spans, features.shape[1])
    return features.masked_fill(mels[:, None] | frames[..., None], 0.0)


def covered(ranges: torch.Tensor, size: int) -> torch.Tensor:
    """Bool [B, size], true inside any of `ranges` [B, n, 2], each a first place and a length."""
    place = torch.arange(size, device=ranges.device)[:, None]
    first, number = ranges[:, None].unbind(3)
    return ((place >= first) & (place < first + number)).any(2)


def output_frames(frames: torch.Tensor) -> torch.Tensor:
    """The number of output frames for this number of frames of features."""
    return (frames + SUBSAMPLING - 1) // SUBSAMPLING


def inside(frames: torch.Tensor, time: int) -> torch.Tensor:
    """Bool [B, time], true for the first `frames` [B] of each row."""
    return torch.arange(time, device=frames.device) < frames[:, None]


class ChannelDropout(nn.Dropout1d):
    """Dropout of a channel in a whole recording. PyTorch's has its factor in the type of the values: bf16 rounds it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` [B, T, C]; in training some channels are zeroed and the others scaled up."""
        if not self.training or self.p == 0:
            return x
        kept = x.new_empty(len(x), x.shape[2], 1).bernoulli_(1 - self.p).mT
        return (x * kept).mul_(1 / (1 - self.p))


class ResidualBlock(nn.Module):
    """A time-delay layer of three frames, GELU, and a matrix, added to the input.

    The layer is a dilated convolution, written as a product of spliced frames with a matrix: forward and backward take
    6 ms in bf16 on one core of an AMD EPYC, where nn.Conv1d takes 10 and nn.Conv2d, channels last, 14 to 22.
    """

    def __init__(self, width: int, dilation: int, dropout: float) -> None:
        super().__init__()
        self.dilation = dilation
        self.norm = LayerNorm(width)
        self.inner = nn.Linear(3 * width, 2 * width)
        self.dropout = ChannelDropout(dropout)
        self.outer = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor, within: torch.Tensor) -> torch.Tensor:
        """`x` [B, T, width] to the same; `within` [B, T, 1] is 1 inside the recordings and 0 after their end."""
        dilation, time = self.dilation, x.shape[1]
        y = F.pad(self.norm(x) * within, (0, 0, dilation, dilation))
        y = torch.cat([y[:, i * dilation : i * dilation + time] for i in range(3)], 2)
        y = F.gelu(self.inner(y))
        step: torch.Tensor = self.outer(self.dropout(y))
        return x + step


class SpeechNetwork(nn.Module):
    """Convolutions that divide time by 8, then residual blocks over time, then a label for each frame.

    Values after a recording's end are zeroed before each convolution over time, so that its logits do not depend on the
    others in its batch.
    """

    def __init__(self, hyper: Hyperparameters, mels: int, labels: int) -> None:
        super().__init__()
        pairs = pairwise((1, *hyper.channels))
        self.convs = nn.ModuleList(nn.Conv2d(i, o, 3, stride=2, padding=1) for i, o in pairs)
        self.project = nn.Linear(mels // SUBSAMPLING * hyper.channels[-1], hyper.width)
        self.blocks = nn.ModuleList(ResidualBlock(hyper.width, d, hyper.dropout) for d in hyper.dilations)
        self.norm = LayerNorm(hyper.width)
        self.head = nn.Linear(hyper.width, labels)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, features: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
        """Logits float32 [B, T / 8, labels] of features [B, T, mels] whose outputs from `frames` [B] on are padding."""
        x = features[:, None]
        for i, conv in enumerate(self.convs):
            x = conv(x)
            x = x.mul_(inside(frames * (SUBSAMPLING >> (i + 1)), x.shape[2])[:, None, :, None].to(x.dtype)).relu_()
        x = self.project(x.permute(0, 2, 3, 1).flatten(2))
        within = inside(frames, x.shape[1])[..., None].to(x.dtype)
        for block in self.blocks:
            x = block(x, within)
        logits: torch.Tensor = self.head(self.norm(x)).float()
        return logits
