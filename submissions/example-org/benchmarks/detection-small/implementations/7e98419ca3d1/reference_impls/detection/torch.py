"""Object detection in PyTorch. Read top to bottom: network, loss, optimizer, implementation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torchvision.ops import generalized_box_iou_loss

from reference_impls.detection.decoding import records
from reference_impls.detection.shared import (
    FP16_LOSS_SCALE,
    Batch,
    Batches,
    Hyperparameters,
    Targets,
    evaluation_batches,
    initial_parameters,
    is_trained,
    normalise,
    patches,
    targets,
)
from reference_impls.kept import Kept
from reference_impls.memory import keep_freed_memory
from reference_impls.precision import loss_scale
from reference_impls.torch_shared import DTYPES, to_numpy, torch_device, unscaled
from suite.harness.implementation import Device, TrainStats

ACCELERATORS = 1
EPSILON = 1e-5
ADAM_EPSILON = 1e-8
BETA_1 = 0.9
EVAL_BATCH = 8
Parameters = dict[str, torch.Tensor]


def network(
    p: Parameters, cells: torch.Tensor, hyper: Hyperparameters, training: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Heat logits [B, classes, h, w] and sides in pixels [B, 4, h, w], both float32, of cells [B, s * s * C, h, w].

    Residual blocks at each level on the way down, one convolution at each on the way up (U-Net), one for the head.
    """

    def convolve(x: torch.Tensor, name: str, stride: int = 1) -> torch.Tensor:
        weight = p[f"{name}_weight"].to(x.dtype)
        x = F.conv2d(x, weight, stride=stride, padding="same" if stride == 1 else 0)
        scale, bias, mean, variance = (p[f"{name}_{part}"] for part in ("scale", "bias", "mean", "variance"))
        y: torch.Tensor = F.batch_norm(x, mean, variance, scale, bias, training, 1 - hyper.norm_momentum, EPSILON)
        return y

    x = cells
    levels: list[torch.Tensor] = []
    for level, blocks in enumerate(hyper.blocks):
        x = F.relu(convolve(x, f"down{level}", stride=2 if level else 1))
        for block in range(blocks):
            y = F.relu(convolve(x, f"block{level}_{block}_a"))
            x = F.relu(x + convolve(y, f"block{level}_{block}_b"))
        levels.append(x)
    for level in reversed(range(len(levels) - 1)):
        x = F.interpolate(convolve(x, f"lateral{level}"), scale_factor=2, mode="nearest")
        x = F.relu(x + levels[level])
        x = F.relu(convolve(x, f"up{level}"))
    x = F.relu(convolve(x, "head"))
    output = F.conv2d(x, p["output_weight"].to(x.dtype)).float() + p["output_bias"][:, None, None]
    return output[:, : hyper.classes], hyper.box_prior * output[:, hyper.classes :].exp()


def loss_of(heat: torch.Tensor, sides: torch.Tensor, goal: Targets, hyper: Hyperparameters) -> torch.Tensor:
    """CenterNet's focal loss of the heat plus TTFNet's weighted GIoU loss of the sides, per object."""
    device = heat.device
    true_heat, true_sides = (torch.from_numpy(a).to(device).permute(0, 3, 1, 2) for a in (goal.heat, goal.sides))
    weight = torch.from_numpy(goal.weight).to(device)
    score = heat.sigmoid()
    hit = (1 - score) ** 2 * F.logsigmoid(heat)
    miss = (1 - true_heat) ** 4 * score**2 * F.logsigmoid(-heat)
    focal = -torch.where(true_heat == 1, hit, miss).sum()
    sign = torch.tensor([-1.0, -1.0, 1.0, 1.0], device=device)
    relative, true_relative = (s.permute(0, 2, 3, 1) * sign for s in (sides, true_sides))  # corners around the cell
    giou = (weight * generalized_box_iou_loss(relative, true_relative)).sum()
    loss: torch.Tensor = (focal + hyper.box_loss_weight * giou) / goal.objects
    return loss


@torch.no_grad()
def update(p: Parameters, moments: Parameters, gradients: Parameters, hyper: Hyperparameters, step: int) -> None:
    """One step of AdamW; weight decay is for convolutions."""
    rate = hyper.learning_rate(step * hyper.global_batch_size)
    correction_1, correction_2 = 1 - BETA_1 ** (step + 1), 1 - hyper.opt_adamw_beta_2 ** (step + 1)
    for name, gradient in gradients.items():
        first, second = moments[f"first/{name}"], moments[f"second/{name}"]
        first.lerp_(gradient, 1 - BETA_1)
        second.lerp_(gradient * gradient, 1 - hyper.opt_adamw_beta_2)
        if p[name].ndim == 4:
            p[name].mul_(1 - rate * hyper.opt_weight_decay)
        p[name].addcdiv_(first / correction_1, (second / correction_2).sqrt() + ADAM_EPSILON, value=-rate)


class TorchDetector:
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        self.hyper, self.data, self.seed = hyper, data, seed
        self.device = torch_device(device)
        self.dtype, self.scale = DTYPES[device.precision], loss_scale(device.precision, FP16_LOSS_SCALE)
        self.batches: Iterator[Batch] | None = None
        self.evaluation = Kept(lambda data: [*map(self.to_device, evaluation_batches(data, EVAL_BATCH, hyper.stride))])
        self.p: Parameters = {}
        self.moments: Parameters = {}
        self.load_state_dict({**initial_parameters(hyper, data["train_images"].shape[-1], seed), "step": np.array(0)})

    def train_until(self, samples: int) -> TrainStats:
        """Take whole steps until `samples` samples have been seen."""
        if self.batches is None:
            self.batches = Batches(self.data, self.hyper, self.seed).iterate(self.step)
        while True:
            loss = self.train_step(next(self.batches))
            if self.step * self.hyper.global_batch_size >= samples:
                return TrainStats(self.step * self.hyper.global_batch_size, float(loss))

    def train_step(self, batch: Batch) -> torch.Tensor:
        """One step; the loss per object."""
        heat, sides = network(self.p, self.to_device(batch.cells), self.hyper, training=True)
        loss = loss_of(heat, sides, batch.targets, self.hyper)
        trained = [name for name in self.p if is_trained(name)]
        computed = torch.autograd.grad(loss * self.scale, [self.p[name] for name in trained])
        gradients = unscaled(dict(zip(trained, computed, strict=True)), self.scale)
        update(self.p, self.moments, gradients, self.hyper, self.step)
        self.step += 1
        return loss.detach()

    @torch.no_grad()
    def outputs(self, cells: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Scores [B, h, w, classes] and sides [B, h, w, 4] of cells [B, C, h, w]."""
        heat, sides = network(self.p, cells, self.hyper, training=False)
        return heat.sigmoid().permute(0, 2, 3, 1).cpu().numpy(), sides.permute(0, 2, 3, 1).cpu().numpy()

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The COCO result records of each test image."""
        found: list[Any] = []
        for cells in self.evaluation.of(data):
            found += records(*self.outputs(cells), len(found), self.hyper)
        return found

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, statistics, moments and the step."""
        return {**to_numpy(self.p), **to_numpy(self.moments), "step": np.array(self.step)}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework; without moments they start at zero."""

        def tensor(value: np.ndarray) -> torch.Tensor:
            made = torch.from_numpy(np.array(value, np.float32)).to(self.device)
            return made.contiguous(memory_format=torch.channels_last) if made.ndim == 4 else made

        for name, value in state.items():
            if name == "step" or "/" in name:
                continue
            self.p[name] = tensor(value).requires_grad_(is_trained(name))
            if is_trained(name):
                for moment in (f"first/{name}", f"second/{name}"):
                    self.moments[moment] = tensor(state.get(moment, np.zeros_like(value)))
        self.step = int(state["step"])
        self.batches = None

    def to_device(self, cells: np.ndarray) -> torch.Tensor:
        """float32 [B, h, w, C] to [B, C, h, w] in channels_last and the training precision."""
        return torch.from_numpy(cells).to(self.device, self.dtype).permute(0, 3, 1, 2)


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TorchDetector:
    """The implementation, warmed up on noise without objects; its state is that of the seed."""
    keep_freed_memory()
    hyper = Hyperparameters.of(hyperparameters)
    made = TorchDetector(hyper, data, seed, device)
    initial = made.state_dict()
    size = hyper.global_batch_size
    shape = data["train_images"].shape
    noise = np.random.default_rng(0).integers(0, 256, (size, *shape[1:]), np.uint8)
    cells = patches(normalise(noise), hyper.stride)
    nothing = targets(np.zeros((size, 1, 4)), np.full((size, 1), -1), cells, hyper)
    made.train_step(Batch(cells, nothing))
    made.outputs(made.to_device(np.zeros((EVAL_BATCH, *cells.shape[1:]), np.float32)))
    made.load_state_dict(initial)
    return made
