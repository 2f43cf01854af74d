"""Recommendation in PyTorch. Read top to bottom: network, loss, optimizer, implementation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from reference_impls.kept import Kept
from reference_impls.memory import keep_freed_memory
from reference_impls.precision import loss_scale
from reference_impls.recommendation.shared import (
    FP16_LOSS_SCALE,
    Batch,
    Histories,
    Hyperparameters,
    Question,
    initial_parameters,
    made_up_batches,
    rank,
)
from reference_impls.torch_shared import DTYPES, to_numpy, torch_device, unscaled
from suite.harness.implementation import Device, TrainStats

ACCELERATORS = 1
Parameters = dict[str, torch.Tensor]


def network(
    p: Parameters, inputs: torch.Tensor, keep: torch.Tensor | None, hyper: Hyperparameters, dtype: torch.dtype
) -> torch.Tensor:
    """What the user is looking for after each position, [B, L, hidden], from `inputs` [B, L].

    `keep` [1 + 2 layers, B, L, hidden] are dropout masks; None: no dropout.
    """

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return x @ p[f"{name}_weight"].to(dtype) + p[f"{name}_bias"].to(dtype)

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.layer_norm(x, (d,), p[f"{name}_scale"], p[f"{name}_bias"]).to(dtype)

    def dropout(x: torch.Tensor, site: int) -> torch.Tensor:
        return x if keep is None else x * keep[site] * (1 / (1 - hyper.dropout))

    batch, length = inputs.shape
    d, heads = hyper.hidden_size, hyper.heads
    future = torch.ones(length, length, dtype=torch.bool, device=inputs.device).triu(1)
    x = dropout(F.embedding(inputs, p["item_embedding"]) + p["position_embedding"][:length], 0)
    for layer in range(hyper.layers):
        qkv = linear(norm(x, f"layer{layer}_attention_norm"), f"layer{layer}_qkv")
        q, k, v = qkv.view(batch, length, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
        attention = (q @ k.transpose(2, 3)).float() * (heads / d) ** 0.5
        attention = attention.masked_fill(future, -torch.inf).softmax(3).to(dtype)
        mixed = (attention @ v).transpose(1, 2).reshape(batch, length, d)
        x = x + dropout(linear(mixed, f"layer{layer}_out").float(), 2 * layer + 1)
        y = F.gelu(linear(norm(x, f"layer{layer}_mlp_norm"), f"layer{layer}_up"))
        x = x + dropout(linear(y, f"layer{layer}_down").float(), 2 * layer + 2)
    return norm(x, "norm")


def mean_loss(
    p: Parameters, batch: dict[str, torch.Tensor], hyper: Hyperparameters, dtype: torch.dtype
) -> torch.Tensor:
    """Cross-entropy of the targets among all items that the user has not taken yet."""
    hidden = network(p, batch["inputs"], batch["keep"], hyper, dtype)
    weight, bias = p["item_embedding"][:-1].to(dtype), p["item_bias"]
    positions = torch.arange(hidden.shape[1], dtype=torch.int16, device=hidden.device)
    taken = batch["taken"][:, None, :] <= positions[:, None]
    logits = (hidden @ weight.T).float().add_(bias)
    with torch.no_grad():
        logits.masked_fill_(taken, -1e9)  # their probabilities are 0, and so are their gradients
    return F.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten(), ignore_index=-1)


@torch.no_grad()
def adamw(
    p: Parameters,
    moments: Parameters,
    gradients: Parameters,
    hyper: Hyperparameters,
    rate: float,
    step: int,
) -> None:
    """Step `step`, from 1 (Loshchilov and Hutter 2019); vectors do not decay."""
    first, second = hyper.opt_adamw_beta_1, hyper.opt_adamw_beta_2
    for name, parameter in p.items():
        gradient = gradients[name]
        mean, square = moments[f"mean/{name}"], moments[f"square/{name}"]
        mean.lerp_(gradient, 1 - first)
        square.lerp_(gradient * gradient, 1 - second)
        if parameter.ndim > 1:
            parameter.mul_(1 - rate * hyper.opt_adamw_weight_decay)
        deviation = (square / (1 - second**step)).sqrt_().add_(hyper.opt_adamw_epsilon)
        parameter.addcdiv_(mean, deviation, value=-rate / (1 - first**step))


class TorchRecommender:
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        self.hyper, self.data, self.seed = hyper, data, seed
        self.device = torch_device(device)
        self.dtype, self.scale = DTYPES[device.precision], loss_scale(device.precision, FP16_LOSS_SCALE)
        self.histories: Histories | None = None
        self.batches: Iterator[Batch] | None = None
        self.questions = Kept(self.made_questions)
        self.p: Parameters = {}
        self.moments: Parameters = {}
        self.load_state_dict({**initial_parameters(hyper, len(data["item_ids"]), seed), "step": np.array(0)})

    def train_until(self, samples: int) -> TrainStats:
        """Take whole steps until `samples` samples have been seen."""
        if self.batches is None:
            self.batches = self.known().batches(self.step)
        size = self.hyper.global_batch_size
        while True:
            rate = self.hyper.learning_rate(self.step, self.known().steps_per_epoch)
            loss = self.train_step(next(self.batches), rate)
            if self.step * size >= samples:
                return TrainStats(self.step * size, float(loss))

    def known(self) -> Histories:
        """The training data, read at the first call."""
        if self.histories is None:
            self.histories = Histories(self.data, self.hyper, self.seed)
        return self.histories

    def train_step(self, batch: Batch, rate: float) -> torch.Tensor:
        """One step; its mean loss."""
        arrays = {name: self.on_device(array) for name, array in vars(batch).items()}
        arrays["targets"] = arrays["targets"].long()
        loss = mean_loss(self.p, arrays, self.hyper, self.dtype)
        computed = torch.autograd.grad(loss * self.scale, list(self.p.values()))
        gradients = unscaled(dict(zip(self.p, computed, strict=True)), self.scale)
        self.step += 1
        adamw(self.p, self.moments, gradients, self.hyper, rate, self.step)
        return loss.detach()

    @torch.no_grad()
    def scores(self, inputs: torch.Tensor, last: torch.Tensor, candidates: torch.Tensor) -> np.ndarray:
        """Logits float32 [B, C] of candidates [B, C] after position `last` [B] of `inputs` [B, L]; in fp32."""
        given, ends, asked = (each.long() for each in (inputs, last, candidates))
        hidden = network(self.p, given, None, self.hyper, torch.float32)
        wanted = hidden[torch.arange(len(ends), device=self.device), ends]
        logits = torch.einsum("bd,bcd->bc", wanted, self.p["item_embedding"][asked]) + self.p["item_bias"][asked]
        return logits.cpu().numpy()

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The ranking of each user's best candidates."""
        return rank((question, self.scores(*tensors)) for question, tensors in self.questions.of(data))

    def made_questions(self, data: Mapping[str, np.ndarray]) -> list[tuple[Question, list[torch.Tensor]]]:
        """The questions about the test candidates, each with what `scores` is given of it."""
        return [
            (each, [self.on_device(array) for array in (each.inputs, each.last, each.candidates)])
            for each in self.known().questions(data["test_candidates"])
        ]

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, AdamW's moments and the step."""
        return {**to_numpy(self.p), **to_numpy(self.moments), "step": np.array(self.step)}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework; without moments they start at zero."""
        for name, value in state.items():
            if name == "step" or "/" in name:
                continue
            self.p[name] = torch.from_numpy(np.array(value)).to(self.device).requires_grad_()
            for moment in (f"mean/{name}", f"square/{name}"):
                start = np.array(state.get(moment, np.zeros_like(value)))
                self.moments[moment] = torch.from_numpy(start).to(self.device)
        self.step = int(state["step"])
        self.batches = None

    def on_device(self, values: np.ndarray) -> torch.Tensor:
        """The values as a tensor."""
        return torch.from_numpy(values).to(self.device)


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TorchRecommender:
    """The implementation, warmed up on made-up histories of each length; its state is that of the seed."""
    keep_freed_memory()
    hyper = Hyperparameters.of(hyperparameters)
    made = TorchRecommender(hyper, data, seed, device)
    initial = made.state_dict()
    for batch in made_up_batches(hyper, len(data["item_ids"])):
        made.train_step(batch, 0.0)
        made.scores(*(made.on_device(a) for a in (batch.inputs, batch.targets[:, 0], batch.targets)))
    made.load_state_dict(initial)
    return made
