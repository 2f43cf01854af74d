"""Object detection in PyTorch. `torch_network.py` is the network, `torch_boxes.py` its targets and its decoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import torch

from reference_impls import torch_shared
from reference_impls.detection.shared import (
    ADAM_EPSILON,
    BETA_1,
    Draw,
    Hyperparameters,
    draws,
    initial_parameters,
    records,
    whole_batches,
)
from reference_impls.detection.torch_boxes import cells_of, decoded, loss_of, moved_boxes, moved_planes, normalised
from reference_impls.detection.torch_network import Detector
from reference_impls.evaluation_cache import EvaluationCache
from reference_impls.shares import part, require, share, steps
from reference_impls.torch_shared import (
    TorchTrainer,
    all_at_once,
    autocast,
    compiled,
    grad_scaler,
    in_training,
    on_device,
    torch_device,
    unwritten,
    warm_ups,
)
from reference_impls.torch_workers import Workers
from suite.harness.implementation import Device
from suite.harness.memory import keep_freed_memory

ACCELERATORS = 1024
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
SHARED_BY = ()
Arrays = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # images, boxes, classes


class TorchDetector(TorchTrainer[Hyperparameters, tuple[Arrays, Draw]]):
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        require(device, hyper.global_batch_size, "images")
        steps(len(data["train_images"]), hyper.global_batch_size, "images")
        self.hyper, self.data, self.seed, self.worker = hyper, data, seed, device
        self.device, self.dtype = torch_device(device), torch_shared.dtype(device)
        _, height, width, self.channels = data["train_images"].shape
        self.frame = on_device(np.array([width, height], np.float32), self.device)
        self.workers = Workers(device)
        self.model = Detector(hyper, self.channels).to(self.device)
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.parallel = self.workers.parallel(self.model)
        decayed = [p for p in self.model.parameters() if p.ndim == 4]
        others = [p for p in self.model.parameters() if p.ndim != 4]
        self.optimizer = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": hyper.opt_weight_decay}, {"params": others, "weight_decay": 0.0}],
            betas=(BETA_1, hyper.opt_adamw_beta_2),
            eps=ADAM_EPSILON,
            **all_at_once(self.device),
        )
        self.optimizers = (self.optimizer,)
        torch_shared.prepare(self.optimizers)
        self.scaler = grad_scaler(self.device, self.dtype)
        self.loss = compiled(self._loss, self.device)
        self.detect = compiled(self._detect, self.device)
        self.arrays: Arrays | None = None
        self.evaluation = EvaluationCache(self.batches)
        self.load_state_dict({**initial_parameters(hyper, self.channels, seed), "step": np.array(0)})

    def feed(self) -> Iterator[tuple[Arrays, Draw]]:
        """The training arrays, copied to the device once, and the draws of each step."""
        if self.arrays is None:
            self.arrays = self.resident(*(self.data[f"train_{name}"] for name in ("images", "boxes", "classes")))
        images = len(self.data["train_images"])
        return zip(repeat(self.arrays), draws(images, self.channels, self.hyper, self.seed, self.step), strict=False)

    def resident(self, images: np.ndarray, boxes: np.ndarray, classes: np.ndarray) -> Arrays:
        """The training arrays on the device, images as planes [N, C, H, W]."""
        pixels, its_boxes, its_classes = (unwritten(a).to(self.device) for a in (images, boxes, classes))
        return pixels.permute(0, 3, 1, 2).contiguous(), its_boxes, its_classes.long()

    def train_step(self, fed: tuple[Arrays, Draw]) -> torch.Tensor:
        """Take one step; return the loss per object."""
        arrays, draw = fed
        torch_shared.set_learning_rate(
            self.optimizer, self.hyper.learning_rate(self.step * self.hyper.global_batch_size)
        )
        in_training(self.model)
        self.optimizer.zero_grad()
        chosen, scale, shift, light = (on_device(share(a, self.worker), self.device) for a in vars(draw).values())
        pixels, boxes, classes = (array[chosen] for array in arrays)
        loss = self.loss(pixels, boxes, classes, scale, shift, light)
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def _loss(
        self,
        pixels: torch.Tensor,
        boxes: torch.Tensor,
        classes: torch.Tensor,
        scale: torch.Tensor,
        shift: torch.Tensor,
        light: torch.Tensor,
    ) -> torch.Tensor:
        """The loss per object of images [B, C, H, W], boxes [B, L, 4] and classes [B, L], augmented by a `Draw`."""
        contrast, offset = light[..., None, None].unbind(1)
        planes = moved_planes(normalised(pixels), scale, shift) * (1 + contrast) + offset
        with autocast(self.device, self.dtype):
            heat, sides = self.parallel(cells_of(planes, self.hyper.stride))
        boxes, classes = moved_boxes(boxes, classes, scale, shift, self.frame)
        return loss_of(heat, sides, boxes, classes, self.hyper) / self.workers.mean((classes >= 0).sum())

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The COCO result records of each test image."""
        own, batches = part(len(data["test_images"]), self.worker), self.evaluation.of(data)
        if not batches:
            return []
        return records(self.found(batches)[: own.stop - own.start].cpu().numpy(), self.hyper, own.start)

    @torch.no_grad()
    def found(self, batches: list[torch.Tensor]) -> torch.Tensor:
        """Candidates [N, K, 7] in batches of cells, as `records` reads them."""
        self.model.eval()
        # a CUDA graph's output is overwritten by its next replay
        return torch.cat([self.detect(cells).clone() for cells in batches])

    def batches(self, data: Mapping[str, np.ndarray]) -> list[torch.Tensor]:
        """Batches of the test images as cells."""
        own = share(data["test_images"], self.worker)
        batches = (on_device(images, self.device).permute(0, 3, 1, 2) for images in whole_batches(own))
        return [cells_of(normalised(planes).to(self.dtype), self.hyper.stride) for planes in batches]

    def _detect(self, cells: torch.Tensor) -> torch.Tensor:
        return decoded(*self.outputs(cells), self.hyper)

    def outputs(self, cells: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores [B, classes, h, w] and sides [B, 4, h, w] of cells."""
        with autocast(self.device, self.dtype):
            heat, sides = self.model(cells)
        return heat.sigmoid(), sides

    def warm_up(self) -> None:
        """Compile steps and evaluations, on blank images without objects."""
        size = self.hyper.global_batch_size
        images, boxes = (
            np.zeros((size, *self.data[name].shape[1:]), self.data[name].dtype)
            for name in ("train_images", "train_boxes")
        )
        blank = self.resident(images, boxes, np.full(boxes.shape[:2], -1))
        for _ in warm_ups(self.device):
            self.train_step((blank, next(draws(size, self.channels, self.hyper, self.seed, 0))))
            self.found(self.batches({"test_images": images[: self.worker.world_size]}))


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TorchDetector:
    """The implementation, warmed up on blank images without objects; its state comes from `seed`."""
    keep_freed_memory()
    return TorchDetector(Hyperparameters.of(hyperparameters), data, seed, device).warmed_up()
