"""Language modelling in PyTorch. Read top to bottom: network, adaptive softmax, optimizer, implementation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch.optim.adam import adam

from reference_impls.language_modeling.shared import (
    Batch,
    Batches,
    Hyperparameters,
    initial_parameters,
    is_matrix,
    predictions,
)
from reference_impls.memory import keep_freed_memory
from suite.harness.implementation import Compute, TrainStats

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LOSS_SCALE = {"fp32": 1.0, "bf16": 1.0, "fp16": 1024.0}
ACCELERATORS = 1
EPSILON = 1e-6
Parameters = dict[str, torch.Tensor]


def normalise(x: torch.Tensor) -> torch.Tensor:
    """Root mean square 1 along the last axis."""
    return x * (x.square().mean(-1, keepdim=True) + EPSILON).rsqrt()


def multiply(
    x: torch.Tensor, weight: torch.Tensor, dtype: torch.dtype, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """x [..., in] times weight [out, in], plus bias [out], in the training precision; float32 [..., out]."""
    return F.linear(x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)).float()


class Recurrence(torch.autograd.Function):
    """h[t] = keep[t] h[t-1] + new[t] along the first axis of `keep` and `new` [T, B, W], from h[-1] = `last`."""

    @staticmethod
    def forward(ctx: Any, keep: torch.Tensor, new: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        """The states h [T, B, W]."""
        states, state = torch.empty_like(new), last
        for t in range(len(new)):
            state = torch.addcmul(new[t], keep[t], state, out=states[t])
        ctx.save_for_backward(keep, states, last)
        return states

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        """The gradients: the same recurrence backwards in time."""
        keep, states, last = ctx.saved_tensors
        to_new = gradient.clone()
        for t in range(len(keep) - 2, -1, -1):
            to_new[t].addcmul_(keep[t + 1], to_new[t + 1])
        return to_new * torch.cat([last[None], states[:-1]]), to_new, None


recurrence: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor] = Recurrence.apply


def embed(p: Parameters, words: torch.Tensor, hyper: Hyperparameters, dtype: torch.dtype) -> torch.Tensor:
    """float32 [T, B, W] of words [T, B]: rare words have narrow embeddings (Baevski and Auli 2019)."""
    x = F.embedding(words.clamp(max=len(p["head"]) - 1), p["head"])
    for i, (first, end) in enumerate(hyper.tails(len(p["bias"]) - len(p["tails"]))):
        where = ((words >= first) & (words < end)).nonzero(as_tuple=True)
        rare = multiply(F.embedding(words[where] - first, p[f"tail{i}"]), p[f"project{i}"], dtype)
        x = x.index_put(where, rare)
    return normalise(x)


def network(
    p: Parameters,
    words: torch.Tensor,
    carry: torch.Tensor,
    masks: torch.Tensor | None,
    hyper: Hyperparameters,
    dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The output float32 [T, B, W] for words [T, B], and what the next segment takes over.

    `carry` [layers, 2, B, W] holds each layer's last input and last state.
    """
    x = embed(p, words, hyper, dtype)
    if masks is not None:
        x = x * masks[0]
    carried = []
    for i in range(hyper.layers):
        inputs = normalise(x)
        before = torch.cat([carry[i, :1], inputs[:-1]])
        new, forget, out = multiply(torch.cat([before, inputs], -1), p[f"gates{i}"], dtype).chunk(3, -1)
        keep = torch.sigmoid(forget + p[f"forget{i}"])
        states = recurrence(keep, (1 - keep) * new, carry[i, 1])
        y = multiply(states * F.silu(out), p[f"mix{i}"], dtype)
        x = x + (y if masks is None else y * masks[i + 1])
        carried.append(torch.stack([inputs[-1], states[-1]]).detach())
    x = normalise(x)
    return x if masks is None else x * masks[-1], torch.stack(carried)


def head_logits(p: Parameters, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """float32 [N, first cutoff + tails] of x [N, W]: the frequent words, and the tails as classes."""
    size = len(p["head"]) + len(p["tails"])
    return multiply(x, torch.cat([p["head"], p["tails"]]), dtype, p["bias"][:size])


def tail_logits(p: Parameters, x: torch.Tensor, i: int, first: int, end: int, dtype: torch.dtype) -> torch.Tensor:
    """float32 [N, end - first] of x [N, W]: the words of tail `i`."""
    bias = p["bias"][first + len(p["tails"]) : end + len(p["tails"])]
    return multiply(multiply(x, p[f"project{i}"].T, dtype), p[f"tail{i}"], dtype, bias)


def log_probabilities(
    p: Parameters, x: torch.Tensor, targets: torch.Tensor, hyper: Hyperparameters, dtype: torch.dtype
) -> torch.Tensor:
    """float32 [N] of targets [N] after x [N, W], by the adaptive softmax (Grave et al. 2017), which is exact."""
    head = len(p["head"])
    tails = hyper.tails(len(p["bias"]) - len(p["tails"]))
    classes = targets.clamp(max=head - 1)
    for i, (first, _) in enumerate(tails):
        classes = torch.where(targets >= first, head + i, classes)
    result = -F.cross_entropy(head_logits(p, x, dtype), classes, reduction="none")
    for i, (first, end) in enumerate(tails):
        where = (classes == head + i).nonzero()[:, 0]
        logits = tail_logits(p, x[where], i, first, end, dtype)
        result = result.index_add(0, where, -F.cross_entropy(logits, targets[where] - first, reduction="none"))
    return result


def distribution(p: Parameters, x: torch.Tensor, hyper: Hyperparameters, dtype: torch.dtype) -> torch.Tensor:
    """The log-probabilities float32 [N, V] of all words after x [N, W]."""
    head = len(p["head"])
    first_choice = F.log_softmax(head_logits(p, x, dtype), -1)
    parts = [first_choice[:, :head]]
    for i, (first, end) in enumerate(hyper.tails(len(p["bias"]) - len(p["tails"]))):
        within = F.log_softmax(tail_logits(p, x, i, first, end, dtype), -1)
        parts.append(first_choice[:, head + i, None] + within)
    return torch.cat(parts, -1)


def orthogonalise(matrix: torch.Tensor, steps: int, dtype: torch.dtype) -> torch.Tensor:
    """The nearest semi-orthogonal matrix, roughly, by Newton-Schulz iteration (Jordan et al. 2024, Muon)."""
    wide = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = (wide / (wide.norm() + 1e-7)).to(dtype)
    for _ in range(steps):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    result: torch.Tensor = (x.T if matrix.shape[0] > matrix.shape[1] else x).float()
    return result


@torch.no_grad()
def update(
    p: Parameters,
    momenta: Parameters,
    squares: Parameters,
    gradients: Parameters,
    hyper: Hyperparameters,
    step: int,
    dtype: torch.dtype,
) -> None:
    """One step: Muon for the layers' matrices, whose gates count as a matrix each; Adam for the other parameters."""
    factor = hyper.learning_rate(step)
    for name, momentum in momenta.items():
        parameter, gradient = p[name], gradients[name]
        if is_matrix(name):
            momentum.mul_(hyper.muon_momentum).add_(gradient)
            direction = gradient + hyper.muon_momentum * momentum
            blocks = torch.split(direction, hyper.width)
            steps = torch.cat([orthogonalise(block, hyper.muon_steps, dtype) for block in blocks])
            parameter.sub_(steps, alpha=hyper.muon_learning_rate * factor)
    others = [name for name in momenta if not is_matrix(name)]
    adam(
        [p[name] for name in others],
        [gradients[name] for name in others],
        [momenta[name] for name in others],
        [squares[name] for name in others],
        [],
        [torch.tensor(float(step), device=p[name].device) for name in others],
        lr=hyper.adam_learning_rate * factor,
        beta1=hyper.opt_adam_beta_1,
        beta2=hyper.opt_adam_beta_2,
        eps=hyper.opt_adam_epsilon,
        weight_decay=0.0,
        amsgrad=False,
        maximize=False,
        fused=True,
    )


class TorchLanguageModel:
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, compute: Compute) -> None:
        self.hyper, self.data, self.seed = hyper, data, seed
        self.device = torch.device("cuda" if compute.device == "gpu" else "cpu")
        self.dtype, self.scale = DTYPES[compute.precision], LOSS_SCALE[compute.precision]
        self.batches: Iterator[Batch] | None = None
        self.p: Parameters = {}
        self.momenta: Parameters = {}
        self.squares: Parameters = {}
        self.carry, self.step = torch.empty(0), 0
        self.restore({**initial_parameters(hyper, len(data["vocabulary"]), seed), "step": np.array(0)})

    def train(self, samples: int) -> TrainStats:
        """Take whole steps until `samples` words have been seen."""
        if self.batches is None:
            self.batches = Batches(self.data["train_tokens"], self.hyper, self.seed).iterate(self.step)
        size = self.hyper.global_batch_size
        while True:
            loss = self.train_step(next(self.batches))
            if self.step * size >= samples:
                return TrainStats(self.step * size, float(loss))

    def train_step(self, batch: Batch) -> torch.Tensor:
        """One step; the mean loss over the batch, in nats per word."""
        if batch.fresh:
            self.carry.zero_()
        words, targets, masks = (self.to_device(a) for a in (batch.words, batch.targets, batch.masks))
        x, self.carry = network(self.p, words, self.carry, masks, self.hyper, self.dtype)
        loss = -log_probabilities(self.p, x.flatten(0, 1), targets.flatten(), self.hyper, self.dtype).mean()
        computed = torch.autograd.grad(loss * self.scale, list(self.p.values()))
        gradients = dict(zip(self.p, computed, strict=True))
        if self.scale != 1.0:
            gradients = {name: torch.nan_to_num(g / self.scale, 0.0, 0.0, 0.0) for name, g in gradients.items()}
        update(self.p, self.momenta, self.squares, gradients, self.hyper, self.step, self.dtype)
        self.step += 1
        return loss.detach()

    @torch.no_grad()
    def predict(self) -> Sequence[Any]:
        """The log-probabilities of the test text, read as one stream, and the audited distributions."""
        carry = torch.zeros(self.hyper.layers, 2, 1, self.hyper.width, device=self.device)

        def evaluate(words: np.ndarray, targets: np.ndarray, audited: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            nonlocal carry
            x, carry = network(self.p, self.to_device(words[:, None]), carry, None, self.hyper, self.dtype)
            x = x[:, 0]
            of_text = log_probabilities(self.p, x, self.to_device(targets), self.hyper, self.dtype)
            rows = distribution(self.p, x[self.to_device(audited)], self.hyper, self.dtype)
            return of_text.cpu().numpy(), rows.cpu().numpy()

        return predictions(self.data, evaluate)

    def state(self) -> dict[str, np.ndarray]:
        """Parameters, both moments, what the layers carry along the text, and the step."""
        named = {
            **self.p,
            **{f"momentum/{name}": value for name, value in self.momenta.items()},
            **{f"square/{name}": value for name, value in self.squares.items()},
            "carry": self.carry,
        }
        return {**{k: v.detach().cpu().numpy().copy() for k, v in named.items()}, "step": np.array(self.step)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework; without moments and carry they start at zero."""
        names = [name for name in state if name not in ("carry", "step") and "/" not in name]
        zeros = np.zeros((self.hyper.layers, 2, self.hyper.streams, self.hyper.width), np.float32)
        self.p = {name: self.to_device(state[name]).requires_grad_() for name in names}
        self.momenta = {n: self.to_device(state.get(f"momentum/{n}", np.zeros_like(state[n]))) for n in names}
        self.squares = {
            n: self.to_device(state.get(f"square/{n}", np.zeros_like(state[n]))) for n in names if not is_matrix(n)
        }
        self.carry = self.to_device(state.get("carry", zeros))
        self.step = int(state["step"])
        self.batches = None

    def to_device(self, array: np.ndarray) -> torch.Tensor:
        """A copy of the array as a tensor."""
        return torch.tensor(array, device=self.device)


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, compute: Compute
) -> TorchLanguageModel:
    """The implementation, warmed up on random words; its state is that of the seed."""
    keep_freed_memory()
    hyper = Hyperparameters.of(hyperparameters)
    made = TorchLanguageModel(hyper, data, seed, compute)
    initial = made.state()
    random_words = np.random.default_rng(0).integers(0, len(data["vocabulary"]), 2 * hyper.global_batch_size)
    for _ in range(2):
        made.train_step(next(Batches(random_words, hyper, seed).iterate(0)))
    made.restore(initial)
    return made
