"""Language modelling in PyTorch: optimizer, implementation. The network is in `torch_network.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.optim.adam import adam

from reference_impls.kept import Kept
from reference_impls.language_modeling.shared import (
    FP16_LOSS_SCALE,
    Batch,
    Batches,
    Hyperparameters,
    initial_carry,
    initial_parameters,
    is_matrix,
    predictions,
    segments,
)
from reference_impls.language_modeling.torch_network import (
    Parameters,
    distribution,
    log_probabilities,
    network,
    pointer,
)
from reference_impls.memory import keep_freed_memory
from reference_impls.precision import loss_scale
from reference_impls.torch_shared import DTYPES, orthogonalise, to_numpy, torch_device, unscaled
from suite.harness.implementation import Device, TrainStats

ACCELERATORS = 1


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

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        self.hyper, self.data, self.seed = hyper, data, seed
        self.device = torch_device(device)
        self.dtype, self.scale = DTYPES[device.precision], loss_scale(device.precision, FP16_LOSS_SCALE)
        self.batches: Iterator[Batch] | None = None
        self.segments = Kept(self.made_segments)
        self.p: Parameters = {}
        self.momenta: Parameters = {}
        self.squares: Parameters = {}
        self.carry: Parameters = {}
        self.step = 0
        self.load_state_dict({**initial_parameters(hyper, len(data["vocabulary"]), seed), "step": np.array(0)})

    def train_until(self, samples: int) -> TrainStats:
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
            self.carry = self.new_carry(self.hyper.streams)
        words, targets, masks = (self.to_device(a) for a in (batch.words, batch.targets, batch.masks))
        x, carry = network(self.p, words, self.carry, masks, self.hyper, self.dtype)
        pointed = pointer(self.p, x, words, self.carry, self.hyper, self.dtype)
        loss = -log_probabilities(self.p, x, targets, pointed, self.hyper, self.dtype).mean()
        self.carry = carry
        computed = torch.autograd.grad(loss * self.scale, list(self.p.values()))
        gradients = unscaled(dict(zip(self.p, computed, strict=True)), self.scale)
        update(self.p, self.momenta, self.squares, gradients, self.hyper, self.step, self.dtype)
        self.step += 1
        return loss.detach()

    @torch.no_grad()
    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The log-probabilities of the test text, read as one stream, and the audited distributions."""
        carry, parts = self.new_carry(1), []
        for words, targets, audited in self.segments.of(data):
            x, after = network(self.p, words[:, None], carry, None, self.hyper, self.dtype)
            pointed = pointer(self.p, x, words[:, None], carry, self.hyper, self.dtype)
            of_text = log_probabilities(self.p, x, targets[:, None], pointed, self.hyper, self.dtype)[:, 0]
            places, chosen, left = (a[audited, 0] for a in pointed)
            rows = distribution(self.p, x[audited, 0], (places, chosen, left), self.hyper, self.dtype)
            parts.append((of_text.cpu().numpy(), rows.cpu().numpy()))
            carry = after
        return predictions(parts, len(data["test_tokens"]))

    def made_segments(self, data: Mapping[str, np.ndarray]) -> list[list[torch.Tensor]]:
        """The segments of the test text."""
        parts = segments(data["test_tokens"], self.data["vocabulary"], self.data["audit_positions"])
        return [[self.to_device(array) for array in part] for part in parts]

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, both moments, what the layers carry along the text, and the step."""
        named = {
            **self.p,
            **{f"momentum/{name}": value for name, value in self.momenta.items()},
            **{f"square/{name}": value for name, value in self.squares.items()},
            **{f"carry/{name}": value for name, value in self.carry.items()},
        }
        return {**to_numpy(named), "step": np.array(self.step)}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework; without moments and carry they start at zero."""
        names = [name for name in state if name != "step" and "/" not in name]
        self.p = {name: self.to_device(state[name]).requires_grad_() for name in names}
        self.momenta = {n: self.to_device(state.get(f"momentum/{n}", np.zeros_like(state[n]))) for n in names}
        self.squares = {
            n: self.to_device(state.get(f"square/{n}", np.zeros_like(state[n]))) for n in names if not is_matrix(n)
        }
        nothing = initial_carry(self.hyper, self.hyper.streams)
        self.carry = {n: self.to_device(state.get(f"carry/{n}", value)) for n, value in nothing.items()}
        self.step = int(state["step"])
        self.batches = None

    def new_carry(self, streams: int) -> Parameters:
        """What the first segment of a text takes over."""
        return {name: self.to_device(value) for name, value in initial_carry(self.hyper, streams).items()}

    def to_device(self, array: np.ndarray) -> torch.Tensor:
        """A copy of the array as a tensor."""
        return torch.tensor(array, device=self.device)


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TorchLanguageModel:
    """The implementation, warmed up on random words; its state is that of the seed."""
    keep_freed_memory()
    hyper = Hyperparameters.of(hyperparameters)
    made = TorchLanguageModel(hyper, data, seed, device)
    initial = made.state_dict()
    random_words = np.random.default_rng(0).integers(0, len(data["vocabulary"]), 2 * hyper.global_batch_size)
    for _ in range(2):
        made.train_step(next(Batches(random_words, hyper, seed).iterate(0)))
    made.load_state_dict(initial)
    return made
