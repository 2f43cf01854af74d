"""Recommendation in PyTorch. Read top to bottom: model, batches, implementation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from reference_impls import torch_shared
from reference_impls.evaluation_cache import EvaluationCache
from reference_impls.recipe import dropout_seed
from reference_impls.recommendation.shared import (
    EVALUATION_BATCH,
    NEVER,
    Histories,
    Hyperparameters,
    initial_parameters,
    made_up_windows,
    rankings,
)
from reference_impls.shares import part, require, share
from reference_impls.torch_cross_entropy import cross_entropy
from reference_impls.torch_layers import Dropout
from reference_impls.torch_shared import (
    TorchTrainer,
    all_at_once,
    autocast,
    compiled,
    dtype,
    in_training,
    on_device,
    torch_device,
    warm_ups,
)
from reference_impls.torch_workers import Workers
from suite.harness.implementation import Device
from suite.harness.memory import keep_freed_memory

ACCELERATORS = 1024
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
SHARED_BY = ()
Asked = tuple[torch.Tensor, int, torch.Tensor]  # windows, length, candidates; see `Question`
Fed = tuple[np.ndarray, int, float]  # windows, length, learning rate


class Block(nn.Module):
    """Attention to what was taken before, then an MLP, each after a norm and added to its input."""

    def __init__(self, hyper: Hyperparameters) -> None:
        super().__init__()
        d, self.heads = hyper.hidden_size, hyper.heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.query, self.key_value, self.out = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.dropout = Dropout(hyper.dropout)

    def forward(self, x: torch.Tensor, asked: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The output [B, Q, d] at the positions `asked` [B, Q, d], which are some or all of `x` [B, L, d].

        `mask` [Q, L] or [B, 1, Q, L] is -inf where a position comes later than the one asked, else 0.
        """
        normed = self.attention_norm(x)
        queried = normed if asked is x else self.attention_norm(asked)
        q = self.query(queried).unflatten(2, (self.heads, -1)).transpose(1, 2)
        k, v = self.key_value(normed).unflatten(2, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        # F.scaled_dot_product_attention takes 10 ms in bf16 for [16, 2, 100, 32] on one core (AMD EPYC), this 2
        weights = torch.softmax(q / q.shape[3] ** 0.5 @ k.mT + mask.to(q.dtype), 3)
        asked = asked + self.dropout(self.out((weights @ v).transpose(1, 2).flatten(2)))
        result: torch.Tensor = asked + self.dropout(self.down(F.gelu(self.up(self.mlp_norm(asked)))))
        return result


class SASRec(nn.Module):
    """A causal Transformer over a history; items are predicted by their embeddings."""

    def __init__(self, hyper: Hyperparameters, items: int) -> None:
        super().__init__()
        self.item_embedding = nn.Embedding(items + 1, hyper.hidden_size)
        self.position_embedding = nn.Embedding(hyper.lengths[-1], hyper.hidden_size)
        self.item_bias = nn.Parameter(torch.zeros(items))
        self.dropout = Dropout(hyper.dropout)
        self.blocks = nn.ModuleList(Block(hyper) for _ in range(hyper.layers))
        self.norm = nn.LayerNorm(hyper.hidden_size)

    def forward(self, inputs: torch.Tensor, last: torch.Tensor | None = None) -> torch.Tensor:
        """Logits [B, L, items] after each position of `inputs` [B, L], or [B, items] after the positions `last` [B]."""
        rows, positions = (torch.arange(size, device=inputs.device) for size in inputs.shape)
        mask = torch.full((len(positions), len(positions)), -torch.inf, device=inputs.device).triu(1)
        x = self.dropout(self.item_embedding(inputs) + self.position_embedding(positions))
        for block in self.blocks[:-1]:
            x = block(x, x, mask)
        if last is None:
            x = self.blocks[-1](x, x, mask)
        else:
            x = self.blocks[-1](x, x[rows, last][:, None], mask[last][:, None, None])[:, 0]
        return F.linear(self.norm(x), self.item_embedding.weight[:-1], self.item_bias)


def inputs_before(items: torch.Tensor, windows: torch.Tensor, length: int, start: int) -> torch.Tensor:
    """The item taken before each target of the windows [B, 3], as [B, L]; `start` before the first of a history."""
    first, begin, _ = windows[:, :, None].unbind(1)
    places = begin + torch.arange(length, device=items.device)
    return torch.where(places > first, items[(places - 1).clamp(0, len(items) - 1)], start)


def targets_of(items: torch.Tensor, windows: torch.Tensor, length: int) -> torch.Tensor:
    """The targets of the windows [B, 3], as [B, L], with -1 after the end."""
    _, begin, end = windows[:, :, None].unbind(1)
    places = begin + torch.arange(length, device=items.device)
    return torch.where(places < end, items[places.clamp(max=len(items) - 1)], -1)


def taken_from(items: torch.Tensor, windows: torch.Tensor, count: int) -> torch.Tensor:
    """The position in each of the windows [B, 3] from which on each item cannot come again, as [B, count].

    An item is in a history only once, so no history has more than `count` items.
    """
    first, begin, end = windows[:, :, None].unbind(1)
    places = first + torch.arange(count, device=items.device)
    item = torch.where(places < end, items[places.clamp(max=len(items) - 1)], count)
    never = torch.full((len(windows), count + 1), NEVER, device=items.device)
    return never.scatter(1, item, places - begin + 1)[:, :-1]


class TorchRecommender(TorchTrainer[Hyperparameters, Fed]):
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        require(device, hyper.global_batch_size, "windows")
        self.hyper, self.data, self.seed, self.worker = hyper, data, seed, device
        self.device, self.dtype = torch_device(device), dtype(device)
        self.count = len(data["item_ids"])
        self.items = torch.zeros(len(data["train_items"]), dtype=torch.int64, device=self.device)
        self.histories: Histories | None = None
        self.questions = EvaluationCache(self.made_questions)
        self.workers = Workers(device)
        self.model = SASRec(hyper, self.count).to(self.device)
        self.parallel = self.workers.parallel(self.model)
        groups: list[dict[str, Any]] = [
            {"params": [p for p in self.model.parameters() if p.ndim > 1]},
            {"params": [p for p in self.model.parameters() if p.ndim == 1], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(
            groups,
            betas=(hyper.opt_adamw_beta_1, hyper.opt_adamw_beta_2),
            eps=hyper.opt_adamw_epsilon,
            weight_decay=hyper.opt_adamw_weight_decay,
            **all_at_once(self.device),
        )
        self.optimizers = (self.optimizer,)
        torch_shared.prepare(self.optimizers)
        self.scaler = torch_shared.grad_scaler(self.device, self.dtype)
        self.loss, self.logits = compiled(self._loss, self.device), compiled(self._logits, self.device)
        self.load_state_dict({**initial_parameters(hyper, self.count, seed), "step": np.array(0)})

    def known(self) -> Histories:
        """The training data, read and copied to the device at the first call."""
        if self.histories is None:
            self.histories = Histories(self.data, self.hyper, self.seed)
            self.items.copy_(torch.from_numpy(np.array(self.data["train_items"])))
        return self.histories

    def feed(self) -> Iterator[Fed]:
        """The windows of each step, their length, and the learning rate."""
        known = self.known()
        steps = enumerate(known.batches(self.step), self.step)
        return ((*batch, self.hyper.learning_rate(step, known.steps_per_epoch)) for step, batch in steps)

    def train_step(self, fed: Fed) -> torch.Tensor:
        """Take one step; return its mean loss."""
        windows, length, rate = fed
        torch.manual_seed(dropout_seed(self.seed, self.step, self.worker.rank))
        torch_shared.set_learning_rate(self.optimizer, rate)
        in_training(self.model)
        self.optimizer.zero_grad()
        loss = self.loss(self.items, on_device(share(windows, self.worker), self.device), length)
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def _loss(self, items: torch.Tensor, windows: torch.Tensor, length: int) -> torch.Tensor:
        """Cross-entropy of the targets of `windows` [B, 3] among all items that the user has not taken yet."""
        with autocast(self.device, self.dtype):
            logits = self.parallel(inputs_before(items, windows, length, self.count)).float()
        # At most -5e8 from the position on from which an item cannot come again, at least 5e8 before it
        limit = 1e9 * (taken_from(items, windows, self.count) - 0.5)[:, None]
        with torch.no_grad():
            logits.clamp_(max=limit - 1e9 * torch.arange(length, device=self.device)[:, None])
        targets = targets_of(items, windows, length).flatten()
        count = self.workers.mean((targets >= 0).sum())
        return cross_entropy(logits.flatten(0, 1), targets, ignore_index=-1).sum() / count

    @torch.no_grad()
    def _logits(self, items: torch.Tensor, windows: torch.Tensor, length: int) -> torch.Tensor:
        """Logits float32 [B, items] of what comes next in `windows` [B, 3], computed in fp32."""
        inputs = inputs_before(items, windows, length, self.count)
        logits: torch.Tensor = self.model(inputs, windows[:, 2] - windows[:, 1])
        return logits

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The ranking of each user's best candidates."""
        rows, questions = self.questions.of(data)
        self.model.eval()
        found = []
        for windows, length, candidates in questions:
            found.append(self.logits(self.items, windows, length).gather(1, candidates))
        scores = torch.cat(found)[rows].nan_to_num(-torch.inf, torch.inf, -torch.inf)
        scores, order = scores.sort(stable=True, descending=True)
        candidates = share(data["test_candidates"], self.worker)
        return rankings(scores.cpu().numpy(), np.take_along_axis(candidates, order.cpu().numpy(), 1))

    def made_questions(self, data: Mapping[str, np.ndarray]) -> tuple[torch.Tensor, list[Asked]]:
        """Each user's row in the answers, and the questions about the test candidates, on the device."""
        candidates = data["test_candidates"]
        rows, questions = self.known().questions(candidates, part(len(candidates), self.worker))
        return on_device(rows, self.device), [
            (on_device(each.windows, self.device), each.length, on_device(each.candidates, self.device))
            for each in questions
        ]

    def warm_up(self) -> None:
        """Compile steps and evaluations of every length, on made-up windows."""
        for length in reversed(self.hyper.lengths):
            for _ in warm_ups(self.device):
                self.train_step((made_up_windows(self.hyper.global_batch_size), length, 0.0))
                self.model.eval()
                self.logits(self.items, on_device(made_up_windows(EVALUATION_BATCH), self.device), length)


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TorchRecommender:
    """The implementation, warmed up on made-up windows of each length; its state comes from `seed`."""
    keep_freed_memory()
    return TorchRecommender(Hyperparameters.of(hyperparameters), data, seed, device).warmed_up()
