"""Image classification in PyTorch. Read top to bottom: training images on the device, implementation.

`pilot` and `full` have another model: `torch_resnet.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from reference_impls.evaluation_cache import EvaluationCache
from reference_impls.image_classification.shared import (
    CLASSES,
    WHITEN_EPSILON,
    WHITEN_IMAGES,
    Draw,
    Draws,
    Hyperparameters,
    area_average,
    initial_parameters,
    scale_and_offset,
)
from reference_impls.image_classification.torch_network import Network
from reference_impls.image_classification.torch_resnet import TorchResNet
from reference_impls.image_classification.torch_resnet import build as build_resnet
from reference_impls.shares import part, require, share
from reference_impls.torch_muon import Muon
from reference_impls.torch_shared import (
    TorchTrainer,
    all_at_once,
    autocast,
    compiled,
    copies,
    dtype,
    grad_scaler,
    on_device,
    prepare,
    set_learning_rate,
    torch_device,
    unwritten,
    warm_ups,
    weights,
)
from reference_impls.torch_workers import Workers
from suite.harness.implementation import Device, TrainStats
from suite.harness.memory import keep_freed_memory

ACCELERATORS = 1024
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
SHARED_BY = ("norm_batch_size",)
EVAL_BATCH = 500


class TrainingImages(nn.Module):
    """The training data on the device, as bytes, and the augmented images of a step."""

    images: torch.Tensor
    labels: torch.Tensor

    def __init__(self, shape: tuple[int, ...], hyper: Hyperparameters) -> None:
        super().__init__()
        self.hyper = hyper
        self.register_buffer("images", torch.zeros(shape, dtype=torch.uint8))
        self.register_buffer("labels", torch.zeros(shape[:1], dtype=torch.uint8))
        for size in set(hyper.epoch_sizes):
            self.register_buffer(f"average{size}", torch.from_numpy(area_average(shape[1], size)))

    def forward(self, drawn: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Images float32 [B, C, size, size] and labels [B]: cropped at a shift, mirrored, made smaller."""
        chosen, down, right, mirrored = drawn.long()
        side = self.images.shape[1]
        pixels = torch.arange(side, device=drawn.device) - self.hyper.translate
        rows, columns = (reflected(shift[:, None] + pixels, side) for shift in (down, right))
        columns = torch.where(mirrored[:, None] > 0, columns.flip(1), columns)
        cropped = self.images[chosen[:, None, None], rows[:, :, None], columns[:, None, :]]
        images = normalised(cropped, self.hyper)
        if size < side:
            average = self.get_buffer(f"average{size}")
            images = average @ images @ average.T
        return images.contiguous(memory_format=torch.channels_last), self.labels[chosen].long()


def reflected(positions: torch.Tensor, side: int) -> torch.Tensor:
    """The positions, with those outside 0 to `side` - 1 reflected at the border."""
    return side - 1 - (side - 1 - positions.abs()).abs()


def normalised(pixels: torch.Tensor, hyper: Hyperparameters) -> torch.Tensor:
    """Bytes [B, S, S, C] to float32 [B, C, S, S] around zero."""
    scale, offset = scale_and_offset(hyper)
    return pixels.permute(0, 3, 1, 2).float() * scale + offset


def whitening(images: torch.Tensor) -> torch.Tensor:
    """The whitening layer's weights [8 C, C, 2, 2] from training images float32 [N, C, S, S] (airbench94).

    The products of bytes that are summed over an image are exact in float32, so all frameworks get the same sums. Each
    filter has the sign that makes its product with 1, sqrt 2, sqrt 3, ... positive.

    The rest is done on the host: a GPU would load its solver library on the clock, and some have no float64.
    """
    count, channels, side, _ = images.shape
    corners = [images[:, :, y : side - 1 + y, x : side - 1 + x] for y in (0, 1) for x in (0, 1)]
    patches = torch.stack(corners, 2).flatten(1, 2).flatten(2)
    products = (patches @ patches.mT).cpu().sum(0, dtype=torch.float64)
    values, vectors = torch.linalg.eigh(products / (count * patches.shape[2]))
    filters = (vectors / (values + WHITEN_EPSILON).sqrt()).T
    side_of = torch.arange(1, 4 * channels + 1, dtype=torch.float64).sqrt()
    filters = filters * (filters @ side_of).sign()[:, None]
    return torch.cat([filters, -filters]).float().view(-1, channels, 2, 2)


class TorchImageClassifier(TorchTrainer[Hyperparameters, Draw]):
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        require(device, hyper.global_batch_size, "images")
        self.hyper, self.data, self.worker = hyper, data, device
        self.device, self.dtype = torch_device(device), dtype(device)
        shape = data["train_images"].shape
        self.draws = Draws(len(data["train_images"]), hyper, seed)
        self.training = TrainingImages(shape, hyper).to(self.device)
        self.test_images = EvaluationCache(lambda data: self.images(share(data["test_images"], device)))
        self.workers = Workers(device)
        self.model: Network = Network(shape[-1], hyper).to(self.device)
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.averaged = deepcopy(self.model).eval().requires_grad_(False)  # what evaluations see
        self.average = get_ema_multi_avg_fn(hyper.ema_decay)  # type: ignore[no-untyped-call]
        self.averages, self.weights = ([*weights(each).values()] for each in (self.averaged, self.model))
        named = dict(self.model.named_parameters())
        self.whiten_bias = named["whiten.bias"]
        self.whiten_bias.requires_grad_(False)  # it is trained in some steps only: its gradient is averaged apart
        self.parallel = self.workers.parallel(self.model)
        self.muon = Muon(
            [p for name, p in named.items() if ".conv" in name],
            lr=hyper.muon_learning_rate,
            momentum=hyper.muon_momentum,
            ns_steps=hyper.muon_steps,
            dtype=self.dtype,
            unit_norm=True,
        )
        decay = hyper.opt_weight_decay * hyper.global_batch_size
        of_bias, of_head = decay / hyper.bias_learning_rate, decay / hyper.head_learning_rate
        self.sgd = torch.optim.SGD(
            [
                {"params": [self.whiten_bias], "weight_decay": of_bias},
                {"params": [p for name, p in named.items() if ".norm" in name], "weight_decay": of_bias},
                {"params": [self.model.head.weight], "weight_decay": of_head},
            ],
            lr=hyper.bias_learning_rate,
            momentum=hyper.opt_momentum,
            nesterov=True,
            **all_at_once(self.device),
        )
        self.optimizers = (self.muon, self.sgd)
        prepare(self.optimizers)
        self.scaler = grad_scaler(self.device, self.dtype)
        self.loss = compiled(self._loss, self.device)
        self.batch_logits = compiled(self._batch_logits, self.device)
        parameters = initial_parameters(hyper, shape[-1], CLASSES, seed)
        self.load_state_dict({**parameters, "step": np.array(0)})

    def state_dict(self) -> dict[str, np.ndarray]:
        """See `TorchTrainer`; the average of each weight is `average/<weight>`."""
        averaged = {f"average/{name}": value for name, value in weights(self.averaged).items()}
        return {**super().state_dict(), **copies(averaged)}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """See `TorchTrainer`; an average that the state lacks starts at the weight."""
        super().load_state_dict(state)
        for name, tensor in weights(self.averaged).items():
            tensor.copy_(torch.from_numpy(np.asarray(state.get(f"average/{name}", state[name]))))

    def train_until(self, samples: int) -> TrainStats:
        """See `Trainer`; the loss of a step is a sum, which is made a mean here."""
        stats = super().train_until(samples)
        return replace(stats, loss=cast(float, stats.loss) / self.hyper.global_batch_size)

    def feed(self) -> Iterator[Draw]:
        """The draws. Images are copied to the device once; at step 0 the first of them set the whitening layer."""
        if self.data:
            self.training.images.copy_(unwritten(self.data["train_images"]))
            self.training.labels.copy_(unwritten(self.data["train_labels"]))
            self.data = {}
        if self.step == 0:
            first = normalised(self.training.images[:WHITEN_IMAGES], self.hyper)
            self.model.whiten.weight.copy_(whitening(first))
            self.averaged.whiten.weight.copy_(self.model.whiten.weight)
        return self.draws.iterate(self.step)

    def train_step(self, draw: Draw) -> torch.Tensor:
        """Take one step; return the loss summed over the batch, which with several workers is the mean of theirs."""
        hyper = self.hyper
        rate, whiten_rate = hyper.learning_rate(draw.epoch), hyper.whiten_learning_rate(draw.epoch)
        set_learning_rate(self.muon, hyper.muon_learning_rate * rate)
        biases = hyper.bias_learning_rate
        set_learning_rate(self.sgd, biases * whiten_rate, biases * rate, hyper.head_learning_rate * rate)
        self.whiten_bias.requires_grad_(whiten_rate > 0)  # once it is frozen nothing goes back through the first layer
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss = self.loss(on_device(share(draw.drawn, self.worker, 1), self.device), draw.size)
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self.workers.average(self.whiten_bias.grad)
        for optimizer in self.optimizers:
            self.scaler.step(optimizer)
        self.scaler.update()
        self.average(self.averages, self.weights, None)
        return loss.detach()

    def _loss(self, drawn: torch.Tensor, size: int) -> torch.Tensor:
        images, labels = self.training(drawn, size)
        with autocast(self.device, self.dtype):
            logits = self.parallel(images)
        summed = F.cross_entropy(logits, labels, label_smoothing=self.hyper.label_smoothing, reduction="sum")
        return summed * self.workers.size

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The class of each test image.

        The images with the smallest margin between the two best classes are also seen mirrored, and half of the weight
        goes to two views shifted by one pixel along a diagonal (airbench94 does so for all).
        """
        images = self.test_images.of(data)
        scores = self.logits(images)
        best = scores.softmax(1).topk(2).values
        margins = self.workers.gathered(best[:, 0] - best[:, 1])
        unsure = margins.argsort(stable=True)[: int(self.hyper.eval_shift_fraction * len(margins))]
        if self.workers.size > 1:
            own = part(len(margins), self.worker)
            unsure = unsure[(unsure >= own.start) & (unsure < own.stop)] - own.start
        if len(unsure):
            seen = images[unsure]
            wider = F.pad(seen, (1, 1, 1, 1), mode="reflect")
            shifted = [self.both_ways(each, self.logits(each)) for each in (wider[:, :, :-2, :-2], wider[:, :, 2:, 2:])]
            scores[unsure] = self.both_ways(seen, scores[unsure]) / 2 + sum(shifted) / 4
        classes: list[int] = scores.argmax(1).cpu().tolist()
        return classes

    def both_ways(self, images: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """With `flip` the mean logits of images [N, C, S, S] and of their mirror images, else the given logits."""
        return (logits + self.logits(images.flip(-1))) / 2 if self.hyper.flip else logits

    @torch.no_grad()
    def logits(self, images: torch.Tensor) -> torch.Tensor:
        """Logits float32 [N, classes] of images [N, C, S, S]."""
        count = len(images)
        if self.device.type != "cpu":  # all batches of one shape and one layout
            images = F.pad(images, (0, 0, 0, 0, 0, 0, 0, -len(images) % EVAL_BATCH))
            images = images.contiguous(memory_format=torch.channels_last)
        parts = [self.batch_logits(part).clone() for part in torch.split(images, EVAL_BATCH)]
        return torch.cat(parts)[:count]

    def _batch_logits(self, images: torch.Tensor) -> torch.Tensor:
        with autocast(self.device, self.dtype):
            logits: torch.Tensor = self.averaged(images)
        return logits

    def images(self, pixels: np.ndarray) -> torch.Tensor:
        """Bytes [N, S, S, C] as images [N, C, S, S] on the device."""
        return normalised(unwritten(pixels).to(self.device), self.hyper).to(self.dtype)

    def warm_up(self) -> None:
        """Compile steps and evaluations of every size, on blank images."""
        side = self.training.images.shape[1:]
        drawn = np.zeros((4, self.hyper.global_batch_size), np.int32)
        for _ in warm_ups(self.device):
            for size, epoch in self.hyper.kinds_of_step():
                self.train_step(Draw(drawn, size, epoch))
            self.logits(self.images(np.zeros((EVAL_BATCH, *side), np.uint8)))


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TorchImageClassifier | TorchResNet:
    """The implementation, compiled and warmed up on blank images of each size; its state comes from `seed`.

    A recipe that names a model gets the ResNet.
    """
    if "model" in hyperparameters:
        return build_resnet(hyperparameters, data, seed, device)
    keep_freed_memory()
    return TorchImageClassifier(Hyperparameters.of(hyperparameters), data, seed, device).warmed_up()
