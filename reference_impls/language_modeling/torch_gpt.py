"""The GPT of `gpt.py` in PyTorch: network, training step with accumulated gradients, evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from reference_impls.ahead import Ahead
from reference_impls.evaluation_cache import EvaluationCache
from reference_impls.language_modeling.gpt import (
    EPSILON,
    Evaluation,
    Hyperparameters,
    Sequences,
    at_once,
    blocks_of,
    evaluation,
    initial_parameters,
    is_matrix,
    made_up,
    made_up_audit,
    predictions,
    rotations,
)
from reference_impls.precision import LOSS_SCALE
from reference_impls.shares import part, require
from reference_impls.torch_muon import Muon
from reference_impls.torch_shared import (
    TorchTrainer,
    all_at_once,
    autocast,
    compiled,
    dtype,
    grad_scaler,
    in_training,
    keep_gradients,
    on_device,
    own_attention,
    prepare,
    set_learning_rate,
    torch_device,
    warm_ups,
)
from reference_impls.torch_workers import Workers, unsent
from suite.harness.implementation import Device
from suite.harness.memory import keep_freed_memory


def normalised(x: torch.Tensor) -> torch.Tensor:
    """RMSNorm (Zhang and Sennrich 2019) of `x` [..., C] along its last axis, without gains."""
    scaled: torch.Tensor = F.rms_norm(x, x.shape[-1:], eps=EPSILON)
    return scaled


class Block(nn.Module):
    """Causal attention, then a feed-forward layer of four times the width; each is added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.mix = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.widen, self.narrow = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
        """[B, T, width] of `x` [B, T, width]; cosines and sines [T, width / heads / 2]."""
        y = normalised(x)
        query, key, value = (
            layer(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        query, key = (rotated(normalised(each), cosines, sines).to(value.dtype) for each in (query, key))
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.mix(attended.transpose(1, 2).flatten(2))
        added: torch.Tensor = self.narrow(F.relu(self.widen(normalised(x))).square())
        return x + added


def rotated(x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """`x` [B, heads, T, C] with the two halves of its last axis turned by each position's angles."""
    first, second = torch.chunk(x.float(), 2, -1)
    return torch.cat([first * cosines + second * sines, second * cosines - first * sines], -1)


class GPT(nn.Module):
    """Tokens to the logits of the tokens after them."""

    def __init__(self, hyper: Hyperparameters) -> None:
        super().__init__()
        self.embedding = nn.Embedding(hyper.vocabulary_size, hyper.width)
        self.blocks = nn.ModuleList(Block(hyper.width, hyper.heads) for _ in range(hyper.layers))
        self.head = nn.Linear(hyper.width, hyper.vocabulary_size, bias=False)
        cosines, sines = map(torch.from_numpy, rotations(hyper))
        self.register_buffer("cosines", cosines, persistent=False)
        self.register_buffer("sines", sines, persistent=False)

    def forward(self, words: torch.Tensor, places: torch.Tensor | None = None) -> torch.Tensor:
        """Logits float32 [B, T, V] of `words` [B, T]; [B, V] if `places` [B] names one place in each row."""
        x = normalised(self.embedding(words))
        for block in self.blocks:
            x = block(x, self.cosines, self.sines)
        if places is not None:
            x = x[torch.arange(len(x), device=x.device), places]
        logits: torch.Tensor = self.head(normalised(x)).float()
        return logits


class TorchGPT(TorchTrainer[Hyperparameters, np.ndarray]):
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        require(device, hyper.sequences, "sequences")
        hyper.require_rows(len(data["vocabulary"]))
        self.hyper, self.data, self.seed, self.worker = hyper, data, seed, device
        self.device, self.dtype = torch_device(device), dtype(device)
        own_attention()
        self.workers = Workers(device)
        self.model: GPT = GPT(hyper).to(self.device)
        self.parallel = self.workers.parallel(self.model)
        self.share = len(range(hyper.sequences)[part(hyper.sequences, device)])
        self.at_once = at_once(self.share, hyper, device)
        matrices = [p for name, p in self.model.named_parameters() if is_matrix(name)]
        self.muon = Muon(matrices, lr=0.0, momentum=hyper.muon_momentum, ns_steps=hyper.muon_steps, dtype=self.dtype)
        self.adam = torch.optim.Adam(
            [{"params": [self.model.embedding.weight]}, {"params": [self.model.head.weight]}],
            lr=0.0,
            betas=(hyper.opt_adam_beta_1, hyper.opt_adam_beta_2),
            eps=hyper.opt_adam_epsilon,
            **all_at_once(self.device),
        )
        self.optimizers = (self.muon, self.adam)
        self.scaler = grad_scaler(self.device, self.dtype)
        prepare(self.optimizers)
        keep_gradients(self.model)
        self.test = EvaluationCache(self.made_test)
        self.loss = compiled(self._loss, self.device)
        self.evaluate = compiled(self._evaluate, self.device)
        self.load_state_dict({**initial_parameters(hyper, seed), "step": np.array(0), "scale": LOSS_SCALE})

    def feed(self) -> Ahead[np.ndarray]:
        """The worker's sequences of each step, read ahead."""
        return Ahead(Sequences(self.data, self.hyper, self.seed, self.worker).iterate(self.step))

    def train_step(self, sequences: np.ndarray) -> torch.Tensor:
        """Take one step on the worker's `sequences` int32 [share, T + 1]; return the mean loss, in nats per token."""
        tokens = on_device(sequences, self.device)
        factor = self.hyper.learning_rate(self.step)
        rates = self.hyper.embedding_learning_rate * factor, self.hyper.head_learning_rate * factor
        set_learning_rate(self.muon, self.hyper.muon_learning_rate * factor)
        set_learning_rate(self.adam, *rates)
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=False)
        in_training(self.model)
        total = torch.zeros((), device=self.device)
        parts = torch.split(tokens, self.at_once)
        for i, each in enumerate(parts):
            with nullcontext() if i == len(parts) - 1 else unsent(self.parallel):
                loss = self.loss(each)
                self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        for optimizer in self.optimizers:
            self.scaler.step(optimizer)
        self.scaler.update()
        return total

    def _loss(self, tokens: torch.Tensor) -> torch.Tensor:
        """What sequences [n, T + 1] add to the mean loss over the worker's part of a batch."""
        with autocast(self.device, self.dtype):
            logits = self.parallel(tokens[:, :-1])
        summed = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten().long(), reduction="sum")
        return summed / (self.hyper.global_batch_size / self.workers.size)

    @torch.no_grad()
    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The log-probabilities of the worker's share of the test text; from the last worker also those audited."""
        self.model.eval()
        made, parts, audited = self.test.of(data)
        found = [self.evaluate(*each).clone() for each in parts]  # the next replay of a CUDA graph writes there
        text = torch.cat(found).cpu().numpy() if found else np.empty(0, np.float32)
        return predictions(made, text, self.distributions(*audited).cpu().numpy(), data["test_tokens"], self.worker)

    def _evaluate(self, words: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The log-probabilities float32 [n, T] of `targets` after `words`, each [n, T]."""
        return self.log_probabilities(words).gather(-1, targets[..., None])[..., 0]

    def distributions(self, words: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """The log-probabilities float32 [A, V] of all tokens at one place [A] of each of `words` [A, T]."""
        return self.log_probabilities(words, places)

    def log_probabilities(self, words: torch.Tensor, places: torch.Tensor | None = None) -> torch.Tensor:
        """Log-probabilities float32 [n, T, V], or [n, V], of the data's tokens, without rows that stand for none."""
        with autocast(self.device, self.dtype):
            logits = self.model(words, places)
        return F.log_softmax(logits[..., : len(self.data["vocabulary"])], -1)

    def made_test(self, data: Mapping[str, np.ndarray]) -> tuple[Evaluation, list[Any], Any]:
        """The worker's share of the test text, its parts as `_evaluate` takes them, and what `distributions` takes."""
        made = evaluation(data["test_tokens"], self.data, self.hyper, self.worker)
        pairs = zip(*(blocks_of(rows, self.at_once) for rows in (made.words, made.targets)), strict=True)
        parts = [tuple(on_device(each.astype(np.int64), self.device) for each in pair) for pair in pairs]
        places = made.audited % self.hyper.sequence_length
        return made, parts, (on_device(made.audited_words, self.device), on_device(places, self.device))

    def warm_up(self) -> None:
        """Compile steps and evaluations, on made-up sequences."""
        made = made_up(self.hyper, self.share)
        words = on_device(made[: self.at_once, :-1].astype(np.int64), self.device)
        audited, places = (on_device(each, self.device) for each in made_up_audit(self.hyper, self.data))
        for _ in warm_ups(self.device):
            self.train_step(made)
            self.model.eval()
            with torch.no_grad():
                self.evaluate(words, words.clone())  # with one tensor for both, it would compile again for two
                self.distributions(audited, places)


def build(hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device) -> TorchGPT:
    """The implementation, warmed up on random tokens; its state comes from `seed`."""
    keep_freed_memory()
    return TorchGPT(Hyperparameters.of(hyperparameters), data, seed, device).warmed_up()
