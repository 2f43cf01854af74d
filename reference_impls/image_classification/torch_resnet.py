"""The ResNet of `resnet.py` in PyTorch: torchvision's network, training step in groups, evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from reference_impls.image_classification.pictures import DEVIATION, MEAN, Training, evaluation
from reference_impls.image_classification.resnet import EPSILON, MODELS, Hyperparameters, initial_parameters
from reference_impls.shares import part, require
from reference_impls.torch_lars import LARS
from reference_impls.torch_shared import (
    TorchTrainer,
    autocast,
    compiled,
    dtype,
    grad_scaler,
    in_training,
    keep_gradients,
    on_device,
    prepare,
    set_learning_rate,
    torch_device,
    warm_ups,
)
from reference_impls.torch_workers import Workers, unsent
from suite.harness.implementation import Device
from suite.harness.memory import keep_freed_memory


class BatchNorm2d(nn.BatchNorm2d):
    """nn.BatchNorm2d that adds each group's statistics, times `share`, to the running ones."""

    def __init__(self, width: int, share: float) -> None:
        super().__init__(width, EPSILON)
        self.share = share

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` [B, C, H, W] with each channel normalised over the batch, then scaled and shifted."""
        if not self.training:
            return super().forward(x)
        assert self.running_mean is not None
        assert self.running_var is not None
        mean, variance = torch.zeros_like(self.running_mean), torch.zeros_like(self.running_var)
        y = F.batch_norm(x, mean, variance, self.weight, self.bias, True, 1.0, self.eps)
        self.running_mean.add_(mean, alpha=self.share)
        self.running_var.add_(variance, alpha=self.share)
        return y


Group = tuple[np.ndarray, np.ndarray]  # images, labels


class TorchResNet(TorchTrainer[Hyperparameters, Iterator[Group]]):
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        from torchvision.models.resnet import Bottleneck, ResNet  # as slow to import as PyTorch, and mini needs none

        require(device, hyper.groups, "groups of norm_batch_size images")
        self.hyper, self.data, self.seed, self.worker = hyper, data, seed, device
        self.device, self.dtype = torch_device(device), dtype(device)
        self.workers = Workers(device)
        self.groups = len(range(hyper.groups)[part(hyper.groups, device)])
        blocks, width = MODELS[hyper.model]
        share = (1 - hyper.norm_momentum) * self.workers.size / hyper.groups
        self.model = ResNet(
            Bottleneck,
            list(blocks),
            len(data["classes"]),
            width_per_group=width,
            norm_layer=partial(BatchNorm2d, share=share),
        ).to(self.device)
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.statistics = [value for name, value in self.model.named_buffers() if ".running_" in name]
        self.parallel = self.workers.parallel(self.model)
        self.lars = LARS(self.model.parameters(), 0.0, hyper.opt_momentum, hyper.opt_weight_decay, hyper.lars_trust)
        self.scaler = grad_scaler(self.device, self.dtype)
        self.optimizers = (self.lars,)
        prepare(self.optimizers)
        keep_gradients(self.model)
        self.mean, self.deviation = (torch.tensor(each, device=self.device) for each in (MEAN, DEVIATION))
        self.loss = compiled(self._loss, self.device)
        self.classify = compiled(self._classify, self.device)
        self.load_state_dict({**initial_parameters(hyper, len(data["classes"]), seed), "step": np.array(0)})

    def feed(self) -> Iterator[Iterator[Group]]:
        """For each step the iterator over the worker's next groups, which are decoded ahead."""
        return repeat(Training(self.data, self.hyper, self.seed, self.worker).iterate(self.step))

    def train_step(self, groups: Iterator[Group]) -> torch.Tensor:
        """Take one step on the worker's next groups; return the mean loss over its images."""
        self.lars.zero_grad(set_to_none=False)
        in_training(self.model)
        torch._foreach_mul_(self.statistics, self.hyper.norm_momentum)
        total = torch.zeros((), device=self.device)
        for i in range(self.groups):
            images, labels = (on_device(each, self.device) for each in next(groups))
            with nullcontext() if i == self.groups - 1 else unsent(self.parallel):
                loss = self.loss(images, labels)
                self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        self.average_statistics()
        set_learning_rate(self.lars, self.hyper.rate(self.step))
        self.scaler.step(self.lars)
        self.scaler.update()
        return total

    def average_statistics(self) -> None:
        """Make the running statistics of batch normalisation their means over the workers."""
        if self.workers.size > 1:
            together = torch.cat(self.statistics)
            self.workers.average(together)
            lengths = [len(each) for each in self.statistics]
            torch._foreach_copy_(self.statistics, [*torch.split(together, lengths)])

    def _loss(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """What a group's images add to the mean loss over the worker's part of a batch."""
        with autocast(self.device, self.dtype):
            logits = self.parallel(self.normalised(images))
        smooth = self.hyper.label_smoothing
        summed = F.cross_entropy(logits.float(), labels, label_smoothing=smooth, reduction="sum")
        return summed / (self.hyper.global_batch_size / self.workers.size)

    def normalised(self, images: torch.Tensor) -> torch.Tensor:
        """Bytes [B, S, S, 3] to float32 [B, 3, S, S] around zero."""
        return ((images.float() - self.mean) / self.deviation).permute(0, 3, 1, 2)

    @torch.no_grad()
    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The classes of the worker's share of the test images, which are decoded anew each time."""
        self.model.eval()
        blocks = evaluation(data, self.hyper, self.worker)
        found = [self.classify(on_device(images, self.device))[:count].clone() for images, count in blocks]
        return [number for each in found for number in each.tolist()]

    def _classify(self, images: torch.Tensor) -> torch.Tensor:
        """The classes [B] of images [B, S, S, 3]."""
        return self.logits(images).argmax(1)

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        """Logits float32 [B, classes] of images uint8 [B, S, S, 3]."""
        with autocast(self.device, self.dtype):
            logits: torch.Tensor = self.model(self.normalised(images)).float()
        return logits

    def warm_up(self) -> None:
        """Compile steps and evaluations, on blank images."""
        side = self.hyper.image_size
        images = np.zeros((self.hyper.norm_batch_size, side, side, 3), np.uint8)
        labels = np.zeros(len(images), np.int64)
        for _ in warm_ups(self.device):
            self.train_step(iter([(images, labels)] * self.groups))
            self.model.eval()
            with torch.no_grad():
                self.classify(on_device(images, self.device))


def build(hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device) -> TorchResNet:
    """The implementation, warmed up on blank images; its state comes from `seed`."""
    keep_freed_memory()
    return TorchResNet(Hyperparameters.of(hyperparameters), data, seed, device).warmed_up()
