"""Speech recognition in PyTorch. Read top to bottom: recordings, network, implementation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from reference_impls.kept import Kept
from reference_impls.memory import keep_freed_memory
from reference_impls.speech import shared
from reference_impls.speech.shared import EVAL_BATCH, SPREAD, SUBSAMPLING, Batch, Batches, Hyperparameters
from reference_impls.torch_shared import (
    DTYPES,
    all_at_once,
    autocast,
    compiled,
    grad_scaler,
    load_state_dict,
    on_device,
    prepare,
    set_learning_rate,
    state_dict,
    torch_device,
)
from suite.harness.implementation import Device, TrainStats

ACCELERATORS = 1


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
        self.features.copy_(on_device(np.array(features), device))
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
    """SpecAugment: features [B, T, mels], zero, the mean, in bands of mels [B, n, 2] and spans of frames [B, m, 2]."""
    mels, frames = covered(bands, features.shape[2]), covered(spans, features.shape[1])
    return features.masked_fill(mels[:, None] | frames[..., None], 0.0)


def covered(ranges: torch.Tensor, size: int) -> torch.Tensor:
    """Bool [B, size], true where one of `ranges` [B, n, 2] is, each its first place and how many."""
    place = torch.arange(size, device=ranges.device)[:, None]
    first, number = ranges[:, None].unbind(3)
    return ((place >= first) & (place < first + number)).any(2)


def output_frames(frames: torch.Tensor) -> torch.Tensor:
    """Frames of output for so many frames of features."""
    return (frames + SUBSAMPLING - 1) // SUBSAMPLING


def inside(frames: torch.Tensor, time: int) -> torch.Tensor:
    """Bool [B, time], true within `frames` [B]."""
    return torch.arange(time, device=frames.device) < frames[:, None]


class ResidualBlock(nn.Module):
    """A time-delay layer of three frames, GELU, and a matrix, on top of what comes in.

    The layer is a dilated convolution, written as a product of spliced frames with a matrix: with its backward pass
    6 ms in bf16 on one core of an AMD EPYC, where nn.Conv1d takes 10 and nn.Conv2d, channels last, 14 to 22.
    """

    def __init__(self, width: int, dilation: int, dropout: float) -> None:
        super().__init__()
        self.dilation = dilation
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(3 * width, 2 * width)
        self.dropout = nn.Dropout1d(dropout)  # of a channel in a whole recording
        self.outer = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor, within: torch.Tensor) -> torch.Tensor:
        """`x` [B, T, width], of which `within` [B, T, 1] is 1 inside of the recordings and 0 behind."""
        dilation, time = self.dilation, x.shape[1]
        y = F.pad(self.norm(x) * within, (0, 0, dilation, dilation))
        y = torch.cat([y[:, i * dilation : i * dilation + time] for i in range(3)], 2)
        y = F.gelu(self.inner(y), approximate="tanh")
        step: torch.Tensor = self.outer(self.dropout(y.mT).mT)
        return x + step


class SpeechNetwork(nn.Module):
    """Convolutions that divide time by 8, then residual blocks over time, then a label for each frame.

    What lies behind a recording's end is zero before each convolution over time, so that its logits do not depend on
    the others in its batch.
    """

    def __init__(self, hyper: Hyperparameters, mels: int, labels: int) -> None:
        super().__init__()
        pairs = pairwise((1, *hyper.channels))
        self.convs = nn.ModuleList(nn.Conv2d(i, o, 3, stride=2, padding=1) for i, o in pairs)
        self.project = nn.Linear(mels // SUBSAMPLING * hyper.channels[-1], hyper.width)
        self.blocks = nn.ModuleList(ResidualBlock(hyper.width, d, hyper.dropout) for d in hyper.dilations)
        self.norm = nn.LayerNorm(hyper.width)
        self.head = nn.Linear(hyper.width, labels)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, features: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
        """Logits float32 [B, T / 8, labels] of features [B, T, mels] whose outputs from `frames` [B] on are padding."""
        x = features[:, None]
        for i, conv in enumerate(self.convs):
            x = F.relu(conv(x))
            x = x * inside(frames * (SUBSAMPLING >> (i + 1)), x.shape[2])[:, None, :, None].to(x.dtype)
        x = self.project(x.permute(0, 2, 3, 1).flatten(2))
        within = inside(frames, x.shape[1])[..., None].to(x.dtype)
        for block in self.blocks:
            x = block(x, within)
        logits: torch.Tensor = self.head(self.norm(x)).float()
        return logits


class TorchSpeech:
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        self.hyper, self.data, self.seed = hyper, data, seed
        self.device, self.dtype = torch_device(device), DTYPES[device.precision]
        self.multiple = 64 if self.device.type == "cpu" else shared.COMPILED  # frames
        self.units = bytes(data["units"]).decode("ascii").split("\n")
        shape = data["train_features"].shape
        self.recordings = Recordings(shape, len(data["train_frames"])).to(self.device)
        self.warps = torch.from_numpy(shared.warps(shape[1], hyper)).to(self.device)
        self.labels = torch.ones((len(data["train_frames"]), 1), dtype=torch.int32, device=self.device)
        self.lengths = np.ones(len(data["train_frames"]), np.int32)  # of the labels of each
        self.model = SpeechNetwork(hyper, shape[1], len(self.units) + 1).to(self.device)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=hyper.opt_base_learning_rate,
            betas=(hyper.opt_adamw_beta_1, hyper.opt_adamw_beta_2),
            eps=hyper.opt_adamw_epsilon,
            weight_decay=hyper.opt_weight_decay,
            **all_at_once(self.device),
        )
        prepare([self.optimizer])
        self.scaler = grad_scaler(self.device, self.dtype)
        self.training_logits = compiled(self._training_logits, self.device)
        self.logits = compiled(self._logits, self.device)
        self.batches: Iterator[Batch] | None = None
        self.filled = False
        self.evaluation = Kept(self.evaluation_batches)

    def train_until(self, samples: int) -> TrainStats:
        """Take whole steps until `samples` samples have been seen."""
        if not self.filled:
            self.recordings.fill(self.data["train_features"], self.data["train_frames"])
            self.lengths = np.array(self.data["train_lengths"], np.int32)
            self.labels = on_device(shared.rows(self.data["train_labels"], self.lengths), self.device)
            self.filled = True
        if self.batches is None:
            frames, mels = np.array(self.data["train_frames"]), self.recordings.features.shape[1]
            self.batches = Batches(frames, mels, self.hyper, self.seed, self.multiple).iterate(self.step)
        while True:
            loss = self.train_step(next(self.batches))
            self.step += 1
            if self.step * self.hyper.global_batch_size >= samples:
                return TrainStats(self.step * self.hyper.global_batch_size, float(loss))

    def train_step(self, batch: Batch) -> torch.Tensor:
        """One step; the loss, CTC's negative log-likelihood of a transcript, mean over the batch."""
        names = ("recordings", "speed", "frames", "warp", "bands", "spans")
        tensors = {name: on_device(getattr(batch, name), self.device) for name in names}
        torch.manual_seed(int.from_bytes(batch.seed.tobytes(), "little"))
        self.model.train()
        logits = self.training_logits(**tensors, time=batch.time)
        loss = F.ctc_loss(
            logits.log_softmax(2).transpose(0, 1),
            self.labels[tensors["recordings"]],
            torch.from_numpy(shared.output_frames(batch.frames)),  # lengths on the host, where CUDA's kernel wants them
            torch.from_numpy(self.lengths[batch.recordings]),
            reduction="sum",
            zero_infinity=True,
        ) / len(batch.recordings)
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.hyper.opt_gradient_clip_norm)
        set_learning_rate(self.optimizer, self.hyper.learning_rate(batch.epoch))
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def _training_logits(
        self,
        recordings: torch.Tensor,
        speed: torch.Tensor,
        frames: torch.Tensor,
        warp: torch.Tensor,
        bands: torch.Tensor,
        spans: torch.Tensor,
        time: int,
    ) -> torch.Tensor:
        """Logits float32 [B, T / 8, labels] of a `Batch`, whose recordings are augmented."""
        features = self.recordings(recordings, speed, frames, time) @ self.warps[warp]
        with autocast(self.device, self.dtype):
            logits: torch.Tensor = self.model(masked(features, bands, spans), output_frames(frames))
        return logits

    def _logits(self, features: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
        """Logits float32 [B, T / 8, labels] of features [B, T, mels] with `frames` [B] of output."""
        with autocast(self.device, self.dtype):
            logits: torch.Tensor = self.model(features, frames)
        return logits

    @torch.no_grad()
    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The words of each test recording."""
        batches = self.evaluation.of(data)
        self.model.eval()
        best = torch.cat([self.logits(features, frames).argmax(2).int() for _, features, frames in batches], 1)
        layout = [(chosen, features.shape[1]) for chosen, features, _ in batches]
        return shared.texts(best.cpu().numpy(), layout, data["test_frames"], self.units)

    def evaluation_batches(self, data: Mapping[str, np.ndarray]) -> list[tuple[np.ndarray, torch.Tensor, torch.Tensor]]:
        """The test recordings' numbers [B], features [B, T, mels] and output frames [B]."""
        lengths = np.array(data["test_frames"], np.int32)
        recordings = Recordings(data["test_features"].shape, len(lengths)).to(self.device)
        recordings.fill(data["test_features"], lengths)
        batches = []
        for chosen, time in shared.evaluation_batches(lengths, EVAL_BATCH, self.multiple):
            which, frames = on_device(chosen, self.device), on_device(lengths[chosen], self.device)
            features = recordings(which, torch.ones_like(frames, dtype=torch.float32), frames, time)
            batches.append((chosen, features, output_frames(frames)))
        return batches

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, moments and the step."""
        return state_dict(self.model, [self.optimizer], self.scaler, self.step)

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework."""
        self.step = load_state_dict(self.model, [self.optimizer], self.scaler, state)
        self.batches = None


def build(hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device) -> TorchSpeech:
    """The implementation, compiled and warmed up on made-up recordings; its state is that of the seed."""
    keep_freed_memory()
    made = TorchSpeech(Hyperparameters.of(hyperparameters), data, seed, device)
    initial = shared.initial_parameters(made.hyper, data["train_features"].shape[1], len(made.units) + 1, seed)
    made.load_state_dict({**initial, "step": np.array(0)})
    for batch in shared.made_up_batches(made.hyper):
        test = torch.zeros(EVAL_BATCH, batch.time, data["train_features"].shape[1], device=made.device)
        frames = torch.full((EVAL_BATCH,), batch.time // SUBSAMPLING, dtype=torch.int32, device=made.device)
        for _ in range(1 if made.device.type == "cpu" else 3):  # a CUDA graph is recorded in the second
            made.train_step(batch)
            made.model.eval()
            with torch.no_grad():
                made.logits(test, frames)
    made.load_state_dict({**initial, "step": np.array(0)})
    return made
