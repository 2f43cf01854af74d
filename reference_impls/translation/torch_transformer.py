"""The Transformer of `transformer.py` in PyTorch: steps of accumulated gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

from reference_impls.ahead import Ahead
from reference_impls.precision import LOSS_SCALE
from reference_impls.recipe import dropout_seed
from reference_impls.shares import part, require
from reference_impls.torch_cross_entropy import cross_entropy
from reference_impls.torch_shared import (
    all_at_once,
    autocast,
    compiled,
    grad_scaler,
    in_training,
    keep_gradients,
    on_device,
    prepare,
    set_learning_rate,
    warm_ups,
)
from reference_impls.torch_workers import unsent
from reference_impls.translation.shared import vocabulary
from reference_impls.translation.torch_translating import Translator
from reference_impls.translation.transformer import (
    SEARCHED,
    Hyperparameters,
    Pairs,
    Part,
    initial_parameters,
    made_up,
)
from suite.harness.implementation import Device
from suite.harness.memory import keep_freed_memory
from tasks.translation.subwords import PAD


class TorchTransformer(Translator[Hyperparameters, list[Part]]):
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        require(device, hyper.parts, "parts")
        super().__init__(hyper, data, device)
        self.hyper, self.seed = hyper, seed
        self.parallel = self.workers.parallel(self.model)
        self.share = len(range(hyper.parts)[part(hyper.parts, device)])
        self.adam = torch.optim.Adam(
            self.model.parameters(),
            lr=0.0,
            betas=(hyper.opt_adam_beta_1, hyper.opt_adam_beta_2),
            eps=hyper.opt_adam_epsilon,
            **all_at_once(self.device),
        )
        self.optimizers = (self.adam,)
        self.scaler = grad_scaler(self.device, self.dtype)
        prepare(self.optimizers)
        keep_gradients(self.model)
        self.loss = compiled(self._loss, self.device)
        self.load_state_dict(
            {**initial_parameters(hyper, vocabulary(data), seed), "step": np.array(0), "scale": LOSS_SCALE}
        )

    def feed(self) -> Ahead[list[Part]]:
        """The worker's parts of each step, read ahead."""
        return Ahead(Pairs(self.data, self.hyper, self.seed, self.worker).iterate(self.step))

    def train_step(self, parts: Sequence[Part]) -> torch.Tensor:
        """Take one step on the worker's parts; return the mean loss over the subwords of its targets."""
        torch.manual_seed(dropout_seed(self.seed, self.step, self.worker.rank))
        self.adam.zero_grad(set_to_none=False)
        in_training(self.model)
        total = torch.zeros((), device=self.device)
        for each in parts:
            source, target = on_device(each.source, self.device), on_device(each.target, self.device)
            with nullcontext() if each is parts[-1] else unsent(self.parallel):
                loss = self.loss(source, target) / (each.subwords / self.workers.size)
                self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        set_learning_rate(self.adam, self.hyper.rate(self.step))
        self.scaler.step(self.adam)
        self.scaler.update()
        return total

    def _loss(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Cross entropy with label smoothing, summed over the subwords of targets [n, 1 + L], of sources [n, L]."""
        with autocast(self.device, self.dtype):
            logits = self.parallel(source, target[:, :-1])
        following = target[:, 1:].flatten().long()
        return cross_entropy(logits.flatten(0, 1), following, self.hyper.label_smoothing, ignore_index=PAD).sum()

    def warm_up(self) -> None:
        """Compile steps and searches of every length, on made-up sentences."""
        for parts in made_up(self.hyper, self.share, self.kind):
            for _ in warm_ups(self.device):
                self.train_step(parts)
        self.warm_up_search(SEARCHED[self.kind])


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TorchTransformer:
    """The implementation, warmed up on made-up sentences; its state comes from `seed`."""
    keep_freed_memory()
    return TorchTransformer(Hyperparameters.of(hyperparameters), data, seed, device).warmed_up()
