"""Translation in PyTorch: training; the network is in `torch_network.py`, its use in `torch_translating.py`.

`pilot` and `full` are trained otherwise: `torch_transformer.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from reference_impls.recipe import dropout_seed
from reference_impls.shares import require, share
from reference_impls.torch_cross_entropy import cross_entropy
from reference_impls.torch_muon import Muon
from reference_impls.torch_shared import (
    all_at_once,
    autocast,
    compiled,
    grad_scaler,
    in_training,
    on_device,
    prepare,
    set_learning_rate,
    warm_ups,
)
from reference_impls.translation.shared import (
    BUCKETS,
    Batch,
    Batches,
    Hyperparameters,
    initial_parameters,
    is_matrix,
    padded,
    vocabulary,
)
from reference_impls.translation.torch_transformer import TorchTransformer
from reference_impls.translation.torch_transformer import build as build_transformer
from reference_impls.translation.torch_translating import Translator
from suite.harness.implementation import Device
from suite.harness.memory import keep_freed_memory
from tasks.translation.subwords import BEGIN, PAD

ACCELERATORS = 1024
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
SHARED_BY = ("part_size",)


class TorchTranslator(Translator[Hyperparameters, tuple[Batch, float]]):
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        require(device, hyper.global_batch_size, "sentence pairs")
        super().__init__(hyper, data, device)
        self.hyper, self.seed = hyper, seed
        self.parallel = self.workers.parallel(self.model)
        matrices = [p for name, p in self.model.named_parameters() if is_matrix(name)]
        others = [p for name, p in self.model.named_parameters() if not is_matrix(name)]
        self.muon = Muon(
            matrices, hyper.muon_learning_rate, hyper.muon_momentum, hyper.muon_steps, self.dtype,
            weight_decay=hyper.opt_weight_decay,
        )  # fmt: skip
        self.adam = torch.optim.AdamW(
            others, hyper.opt_base_learning_rate, (hyper.opt_adam_beta_1, hyper.opt_adam_beta_2), eps=1e-9,
            weight_decay=0.0, **all_at_once(self.device),
        )  # fmt: skip
        self.optimizers = (self.muon, self.adam)
        self.scaler = grad_scaler(self.device, self.dtype)
        prepare(self.optimizers)
        self.loss = compiled(self._loss, self.device)
        self.source, self.target = torch.empty(0), torch.empty(0)
        self.filled = False
        self.load_state_dict({**initial_parameters(hyper, vocabulary(data), seed), "step": np.array(0)})

    def feed(self) -> Iterator[tuple[Batch, float]]:
        """Each step's batch, and factor on the learning rates; sentences are copied to the device once."""
        source, target = (padded(self.data[name]) for name in ("train_source", "train_target"))
        if not self.filled:
            self.keep(source, target)
            self.filled = True
        batches = Batches(source, target, self.hyper, self.seed, self.kind)
        steps = enumerate(batches.iterate(self.step), self.step)
        return ((batch, self.hyper.learning_rate(step, batches.steps_per_epoch)) for step, batch in steps)

    def keep(self, source: np.ndarray, target: np.ndarray) -> None:
        """Bring the training sentences [N, L] to the device; the targets with BEGIN before them."""
        self.source = on_device(source, self.device)
        self.target = on_device(np.pad(target, ((0, 0), (1, 0)), constant_values=BEGIN), self.device)

    def train_step(self, fed: tuple[Batch, float]) -> torch.Tensor:
        """Take one step; return the loss, a mean over the targets' subwords."""
        batch, factor = fed
        torch.manual_seed(dropout_seed(self.seed, self.step, self.worker.rank))
        rows = on_device(share(batch.rows, self.worker), self.device)
        source = self.source[:, : batch.source_length].index_select(0, rows)
        target = self.target[:, : batch.target_length + 1].index_select(0, rows)
        in_training(self.model)
        loss = self.loss(source, target)
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        set_learning_rate(self.muon, self.hyper.muon_learning_rate * factor)
        set_learning_rate(self.adam, self.hyper.opt_base_learning_rate * factor)
        for optimizer in self.optimizers:
            self.scaler.step(optimizer)
            optimizer.zero_grad()
        self.scaler.update()
        return loss.detach()

    def _loss(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Cross entropy with label smoothing, of sources [B, S] and targets with BEGIN before them [B, 1 + T]."""
        with autocast(self.device, self.dtype):
            logits = self.parallel(source, target[:, :-1])
        following = target[:, 1:].flatten().long()
        losses = cross_entropy(logits.flatten(0, 1), following, self.hyper.label_smoothing, ignore_index=PAD)
        return losses.sum() / self.workers.mean((following != PAD).sum())

    def warm_up(self) -> None:
        """Compile steps and searches of every length, on made-up sentences."""
        size = self.hyper.global_batch_size
        made_up = np.full((size, BUCKETS[-1]), 5, np.int32)
        self.keep(made_up, made_up)
        lengths = BUCKETS if self.kind == "gpu" else BUCKETS[:1]
        for length in reversed(lengths):
            for _ in warm_ups(self.device):
                self.train_step((Batch(np.arange(size), length, length), 0.0))
        self.warm_up_search(lengths)


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TorchTranslator | TorchTransformer:
    """The implementation, warmed up on made-up sentences of each length; its state comes from `seed`.

    A recipe that names a model gets the one of `torch_transformer.py`.
    """
    if "model" in hyperparameters:
        return build_transformer(hyperparameters, data, seed, device)
    keep_freed_memory()
    return TorchTranslator(Hyperparameters.of(hyperparameters), data, seed, device).warmed_up()
