"""Speech recognition in PyTorch. Read top to bottom: network, optimizer, implementation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from reference_impls.kept import Kept
from reference_impls.memory import keep_freed_memory
from reference_impls.precision import loss_scale
from reference_impls.speech.shared import (
    FP16_LOSS_SCALE,
    SUBSAMPLING,
    Batch,
    Batches,
    Hyperparameters,
    Recordings,
    decode,
    evaluation_batches,
    initial_parameters,
    warmup_batches,
)
from reference_impls.torch_shared import DTYPES, to_numpy, torch_device
from suite.harness.implementation import Device, TrainStats

ACCELERATORS = 1
EVAL_BATCH = 50
Parameters = dict[str, torch.Tensor]


def network(
    p: Parameters, features: torch.Tensor, frames: torch.Tensor, kept: torch.Tensor | None, dilations: Sequence[int]
) -> torch.Tensor:
    """Logits float32 [B, T / 8, labels] of features [B, T, mels], whose outputs from `frames` [B] on are padding.

    `kept` [blocks, B, 1, hidden] is dropout's factor on hidden channels. Padding is zero before each convolution
    over time, so a recording's logits do not depend on the others in its batch.
    """
    dtype = features.dtype
    batch, time, _ = features.shape
    x = features[:, None]
    for i in range(3):
        time //= 2
        weight = p[f"conv{i}_weight"].permute(3, 2, 0, 1).to(dtype, memory_format=torch.channels_last)
        x = F.relu(F.conv2d(x, weight, p[f"conv{i}_bias"].to(dtype), stride=2, padding=1))
        x = x * mask(frames * (SUBSAMPLING >> (i + 1)), time, dtype)[:, None]
    x = linear(p, "project", x.permute(0, 2, 3, 1).reshape(batch, time, -1))
    inside = mask(frames, time, dtype)
    for i, dilation in enumerate(dilations):
        y = F.pad(norm(p, f"block{i}_norm", x) * inside, (0, 0, dilation, dilation))
        y = torch.cat([y[:, j * dilation : j * dilation + time] for j in range(3)], 2)
        y = F.gelu(linear(p, f"block{i}_in", y), approximate="tanh")
        if kept is not None:
            y = y * kept[i]
        x = x + linear(p, f"block{i}_out", y)
    return linear(p, "head", norm(p, "norm", x)).float()


def mask(frames: torch.Tensor, time: int, dtype: torch.dtype) -> torch.Tensor:
    """[B, time, 1], one within `frames` [B] and zero behind."""
    return (torch.arange(time, device=frames.device) < frames[:, None])[..., None].to(dtype)


def linear(p: Parameters, name: str, x: torch.Tensor) -> torch.Tensor:
    """`x` [..., in] by the matrix [in, out] and the bias of layer `name`."""
    return x @ p[f"{name}_weight"].to(x.dtype) + p[f"{name}_bias"].to(x.dtype)


def norm(p: Parameters, name: str, x: torch.Tensor) -> torch.Tensor:
    """Layer norm."""
    return F.layer_norm(x, x.shape[-1:], p[f"{name}_weight"].to(x.dtype), p[f"{name}_bias"].to(x.dtype))


class TorchSpeech:
    """The implementation; see `suite.harness.implementation.Implementation`.

    All parameters lie in one vector, and so do both moments of Adam; `parameters()` names its parts.
    """

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        self.hyper, self.data, self.seed = hyper, data, seed
        self.device = torch_device(device)
        self.dtype, self.scale = DTYPES[device.precision], loss_scale(device.precision, FP16_LOSS_SCALE)
        self.units = bytes(data["units"]).decode("ascii").split("\n")
        initial = initial_parameters(hyper, data["train_features"].shape[1], len(self.units) + 1, seed)
        self.shapes = {name: value.shape for name, value in initial.items()}
        self.batches: Iterator[Batch] | None = None
        self.evaluation = Kept(self.evaluation_batches)
        self.flat: torch.Tensor
        self.load_state_dict({**initial, "step": np.array(0)})

    def train_until(self, samples: int) -> TrainStats:
        """Take whole steps until `samples` samples have been seen."""
        if self.batches is None:
            self.batches = Batches(self.data, self.hyper, self.seed).iterate(self.step)
        while True:
            loss = self.train_step(next(self.batches))
            self.step += 1
            if self.step * self.hyper.global_batch_size >= samples:
                return TrainStats(self.step * self.hyper.global_batch_size, float(loss))

    def train_step(self, batch: Batch) -> torch.Tensor:
        """One step; the loss, CTC's negative log-likelihood of a transcript, mean over the batch."""
        self.flat.requires_grad_()
        frames = self.on_device(batch.frames)
        logits = network(
            self.parameters(), self.on_device(batch.features), frames, self.on_device(batch.kept), self.hyper.dilations
        )
        loss = F.ctc_loss(
            logits.log_softmax(2).transpose(0, 1),
            self.on_device(batch.labels),
            frames,
            self.on_device(batch.lengths),
            reduction="sum",
            zero_infinity=True,
        ) / len(batch.lengths)
        (gradient,) = torch.autograd.grad(loss * self.scale, self.flat)
        self.flat = self.flat.detach()
        self.update(torch.nan_to_num(gradient / self.scale, 0.0, 0.0, 0.0), batch.epoch)
        return loss.detach()

    def update(self, gradient: torch.Tensor, epoch: float) -> None:
        """One step of AdamW (Loshchilov & Hutter, 2019) with gradient clipping, on all parameters."""
        hyper, rate = self.hyper, self.hyper.learning_rate(epoch)
        gradient.mul_(torch.clamp(hyper.opt_gradient_clip_norm / gradient.norm(), max=1.0))
        self.moment1.lerp_(gradient, 1 - hyper.opt_adamw_beta_1)
        self.moment2.lerp_(gradient.square_(), 1 - hyper.opt_adamw_beta_2)
        correction1 = 1 - hyper.opt_adamw_beta_1 ** (self.step + 1)
        correction2 = 1 - hyper.opt_adamw_beta_2 ** (self.step + 1)
        self.flat.mul_(1 - rate * hyper.opt_weight_decay)
        deviation = (self.moment2 / correction2).sqrt_().add_(hyper.opt_adamw_epsilon)
        self.flat.addcdiv_(self.moment1, deviation, value=-rate / correction1)

    @torch.no_grad()
    def logits(self, features: torch.Tensor, frames: torch.Tensor) -> np.ndarray:
        """Logits float32 [B, T / 8, labels] of features [B, T, mels] with `frames` [B] of output."""
        return network(self.parameters(), features, frames, None, self.hyper.dilations).cpu().numpy()

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The words of each test recording."""
        texts = [""] * len(data["test_frames"])
        for chosen, frames, tensors in self.evaluation.of(data):
            for i, text in zip(chosen, decode(self.logits(*tensors).argmax(2), frames, self.units), strict=True):
                texts[i] = text
        return texts

    def evaluation_batches(self, data: Mapping[str, np.ndarray]) -> list[tuple[np.ndarray, np.ndarray, Any]]:
        """The test recordings' numbers [B] and output frames [B], and what `logits` is given of them."""
        recordings = Recordings(data["test_features"], data["test_frames"])
        return [
            (chosen, frames, (self.on_device(features), self.on_device(frames)))
            for chosen, features, frames in evaluation_batches(recordings, EVAL_BATCH)
        ]

    def parameters(self) -> Parameters:
        """The parameters by name, views of the one vector."""
        return named(self.flat, self.shapes)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, moments and the step."""
        vectors = {"": self.flat, "moment1/": self.moment1, "moment2/": self.moment2}
        parts = {
            prefix + name: part
            for prefix, vector in vectors.items()
            for name, part in named(vector, self.shapes).items()
        }
        return {**to_numpy(parts), "step": np.array(self.step)}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework; without moments they start at zero."""

        def vector(prefix: str) -> torch.Tensor:
            parts = [state.get(prefix + name, np.zeros(shape)).ravel() for name, shape in self.shapes.items()]
            return torch.from_numpy(np.concatenate(parts, dtype=np.float32)).to(self.device)

        self.flat, self.moment1, self.moment2 = vector(""), vector("moment1/"), vector("moment2/")
        self.step = int(state["step"])
        self.batches = None

    def on_device(self, values: np.ndarray) -> torch.Tensor:
        """The values as a tensor, float32 in the training precision."""
        tensor = torch.from_numpy(values)
        return tensor.to(self.device, self.dtype if tensor.is_floating_point() else None)


def named(vector: torch.Tensor, shapes: Mapping[str, tuple[int, ...]]) -> Parameters:
    """The parts of `vector`, one of each shape."""
    parts = torch.split(vector, [int(np.prod(shape)) for shape in shapes.values()])
    return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}


def build(hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device) -> TorchSpeech:
    """The implementation, warmed up on made-up recordings; its state is that of the seed."""
    keep_freed_memory()
    made = TorchSpeech(Hyperparameters.of(hyperparameters), data, seed, device)
    initial = made.state_dict()
    for batch in warmup_batches(made.hyper, data["train_features"].shape[1]):
        made.train_step(batch)
        made.logits(made.on_device(batch.features), made.on_device(batch.frames))
    made.load_state_dict(initial)
    return made
