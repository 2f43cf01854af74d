"""Image classification in PyTorch. Read top to bottom: network, optimizer, implementation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from reference_impls.image_classification.shared import (
    FP16_LOSS_SCALE,
    Batch,
    Batches,
    Hyperparameters,
    classify,
    initial_parameters,
    normalise,
    whitening,
)
from reference_impls.kept import Kept
from reference_impls.memory import keep_freed_memory
from reference_impls.precision import loss_scale
from reference_impls.torch_shared import DTYPES, orthogonalise, to_numpy, torch_device, unscaled
from suite.harness.implementation import Device, TrainStats

ACCELERATORS = 1
EPSILON = 1e-5
EVAL_BATCH = 1000
Parameters = dict[str, torch.Tensor]


def network(p: Parameters, images: torch.Tensor, training: bool, momentum: float) -> torch.Tensor:
    """Logits float32 [B, classes] of images [B, C, S, S]: whitening, pairs of 3x3 convolutions, maximum, head."""
    dtype = images.dtype
    x = F.gelu(F.conv2d(images, p["whiten_weight"].to(dtype), p["whiten_bias"].to(dtype)))
    i = 0
    while f"conv{i}_weight" in p:
        x = F.conv2d(x, p[f"conv{i}_weight"].to(dtype), padding=1)
        if i % 2 == 0:
            x = F.max_pool2d(x, 2)
        mean, variance, bias = p[f"norm{i}_mean"], p[f"norm{i}_variance"], p[f"norm{i}_bias"]
        x = F.gelu(F.batch_norm(x, mean, variance, torch.ones_like(bias), bias, training, 1 - momentum, EPSILON))
        i += 1
    x = x.amax((2, 3))
    logits: torch.Tensor = F.linear(x, p["head_weight"].to(dtype)).float() / x.shape[1]
    return logits


@torch.no_grad()
def update(
    p: Parameters,
    momenta: Parameters,
    gradients: Parameters,
    hyper: Hyperparameters,
    epoch: float,
    dtype: torch.dtype,
) -> None:
    """One step of Muon for the convolutions and of Nesterov momentum for biases and head."""
    factor = hyper.learning_rate(epoch)
    decay = hyper.opt_weight_decay * hyper.global_batch_size
    for name, momentum in momenta.items():
        parameter, gradient = p[name], gradients[name]
        if name.startswith("conv"):
            momentum.mul_(hyper.muon_momentum).add_(gradient)
            direction = (gradient + hyper.muon_momentum * momentum).flatten(1)
            parameter.mul_(len(parameter) ** 0.5 / parameter.norm())
            step = orthogonalise(direction, hyper.muon_steps, dtype).view(parameter.shape)
            parameter.sub_(step, alpha=hyper.muon_learning_rate * factor)
            continue
        first_rate = hyper.head_learning_rate if name == "head_weight" else hyper.bias_learning_rate
        rate = first_rate * (hyper.whiten_learning_rate(epoch) if name == "whiten_bias" else factor)
        gradient = gradient.add(parameter, alpha=decay / first_rate)
        momentum.mul_(hyper.opt_momentum).add_(gradient)
        parameter.sub_(gradient + hyper.opt_momentum * momentum, alpha=rate)


def part(images: torch.Tensor, chosen: np.ndarray, pixels: np.ndarray) -> torch.Tensor:
    """The images `chosen` of [N, C, S, S], made of their rows and columns `pixels`."""
    return images[chosen][:, :, pixels][..., pixels].contiguous(memory_format=torch.channels_last)


class TorchImageClassifier:
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        self.hyper, self.data, self.seed = hyper, data, seed
        self.device = torch_device(device)
        self.dtype, self.scale = DTYPES[device.precision], loss_scale(device.precision, FP16_LOSS_SCALE)
        channels, classes = data["train_images"].shape[-1], 10
        initial = initial_parameters(hyper, channels, classes, seed)
        self.batches: Iterator[Batch] | None = None
        self.images = Kept(lambda data: self.to_device(normalise(data["test_images"], hyper)))
        self.p: Parameters = {}
        self.momenta: Parameters = {}
        self.load_state_dict({**initial, "step": np.array(0)})

    def train_until(self, samples: int) -> TrainStats:
        """Take whole steps until `samples` samples have been seen."""
        if self.batches is None:
            data = Batches(self.data["train_images"], self.data["train_labels"], self.hyper, self.seed)
            if self.step == 0:
                self.p["whiten_weight"].copy_(torch.from_numpy(whitening(data.whitening_images())))
            self.batches = data.iterate(self.step)
        size = self.hyper.global_batch_size
        while True:
            batch = next(self.batches)
            loss = self.train_step(batch.images, batch.labels, batch.epoch)
            self.step += 1
            if self.step * size >= samples:
                return TrainStats(self.step * size, float(loss) / size)

    def train_step(self, images: np.ndarray, labels: np.ndarray, epoch: float) -> torch.Tensor:
        """One step on images float32 [B, S, S, C] and labels [B]; the loss summed over the batch."""
        logits = network(self.p, self.to_device(images), True, self.hyper.norm_momentum)
        targets = torch.from_numpy(labels).to(self.device)
        loss = F.cross_entropy(logits, targets, label_smoothing=self.hyper.label_smoothing, reduction="sum")
        names = list(self.momenta)
        computed = torch.autograd.grad(loss * self.scale, [self.p[name] for name in names])
        gradients = unscaled(dict(zip(names, computed, strict=True)), self.scale)
        update(self.p, self.momenta, gradients, self.hyper, epoch, self.dtype)
        return loss.detach()

    @torch.no_grad()
    def logits(self, images: torch.Tensor) -> np.ndarray:
        """Logits float32 [N, classes] of images [N, C, S, S]; with flip, the mean of an image and its mirror."""
        outputs = []
        for x in torch.split(images, EVAL_BATCH):
            y = network(self.p, x, False, self.hyper.norm_momentum)
            if self.hyper.flip:
                y = (y + network(self.p, x.flip(-1), False, self.hyper.norm_momentum)) / 2
            outputs.append(y.cpu().numpy())
        return np.concatenate(outputs)

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The class of each test image."""
        return [int(label) for label in classify(self.logits, part, self.images.of(data), self.hyper)]

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, statistics, momenta and the step."""
        momenta = {f"momentum/{name}": value for name, value in self.momenta.items()}
        return {**to_numpy(self.p), **to_numpy(momenta), "step": np.array(self.step)}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework; without momenta they start at zero."""
        for name, value in state.items():
            if name == "step" or name.startswith("momentum/"):
                continue
            tensor = torch.from_numpy(np.array(value, np.float32)).to(self.device)
            if tensor.ndim == 4:
                tensor = tensor.contiguous(memory_format=torch.channels_last)
            trained = name != "whiten_weight" and not name.endswith(("_mean", "_variance"))
            self.p[name] = tensor.requires_grad_(trained)
            if trained:
                momentum = state.get(f"momentum/{name}", np.zeros_like(value))
                self.momenta[name] = torch.from_numpy(np.array(momentum, np.float32)).to(self.device)
        self.step = int(state["step"])
        self.batches = None

    def to_device(self, images: np.ndarray) -> torch.Tensor:
        """float32 [B, S, S, C] to [B, C, S, S] in channels_last and the training precision."""
        return torch.from_numpy(images).to(self.device, self.dtype).permute(0, 3, 1, 2)


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TorchImageClassifier:
    """The implementation, warmed up on random images of each size; its state is that of the seed."""
    keep_freed_memory()
    hyper = Hyperparameters.of(hyperparameters)
    made = TorchImageClassifier(hyper, data, seed, device)
    initial = made.state_dict()
    shape = data["train_images"].shape[1:]
    for size in sorted(set(hyper.epoch_sizes)):
        noise = np.random.default_rng(0).random((hyper.global_batch_size, size, size, shape[-1]), np.float32)
        made.train_step(noise, np.zeros(len(noise), np.int64), 0.0)
    classify(made.logits, part, made.to_device(np.zeros((EVAL_BATCH, *shape), np.float32)), hyper)
    made.load_state_dict(initial)
    return made
