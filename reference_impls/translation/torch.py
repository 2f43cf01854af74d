"""Translation in PyTorch: optimizer, implementation. The network is in `torch_network.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from reference_impls.kept import Kept
from reference_impls.memory import keep_freed_memory
from reference_impls.precision import loss_scale
from reference_impls.torch_shared import DTYPES, to_numpy, torch_device, unscaled
from reference_impls.translation.search import Step, questions, translate
from reference_impls.translation.shared import (
    FP16_LOSS_SCALE,
    POSITIONS,
    Batch,
    Batches,
    Hyperparameters,
    initial_parameters,
    is_matrix,
    make_batch,
    positions,
    vocabulary,
)
from reference_impls.translation.torch_network import Cache, Dropout, Parameters, decode, encode
from suite.harness.implementation import Device, TrainStats
from tasks.translation import PAD

ACCELERATORS = 1


def orthogonalise(matrices: Parameters, steps: int, dtype: torch.dtype) -> Parameters:
    """The nearest semi-orthogonal matrices, roughly, by Newton-Schulz iteration (Jordan et al. 2024, Muon).

    Each is [..., out, in]; those of like shape, or like when transposed, are iterated together.
    """
    wide = {name: m.flatten(0, -3) if m.ndim > 2 else m[None] for name, m in matrices.items()}
    wide = {name: m.mT if m.shape[1] > m.shape[2] else m for name, m in wide.items()}
    result: Parameters = {}
    for shape in {m.shape[1:]: None for m in wide.values()}:
        names = [name for name, m in wide.items() if m.shape[1:] == shape]
        x = torch.cat([wide[name] for name in names])
        x = (x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)).to(dtype)
        for _ in range(steps):
            gram = x @ x.mT
            x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
        parts = x.float().split([len(wide[name]) for name in names])
        for name, part in zip(names, parts, strict=True):
            tall = matrices[name].shape[-2] > matrices[name].shape[-1]
            result[name] = (part.mT if tall else part).reshape(matrices[name].shape)
    return result


@torch.no_grad()
def update(
    p: Parameters,
    moments: Parameters,
    gradients: Parameters,
    hyper: Hyperparameters,
    step: int,
    factor: float,
    dtype: torch.dtype,
) -> None:
    """One step of Muon with Nesterov momentum and decoupled decay for matrices, of Adam for embeddings and gains."""
    directions: Parameters = {}
    for name, parameter in p.items():
        gradient, first = gradients[name], moments[f"first/{name}"]
        if is_matrix(name):
            first.lerp_(gradient, 1 - hyper.muon_momentum)
            directions[name] = gradient.lerp(first, hyper.muon_momentum)
            continue
        second = moments[f"second/{name}"]
        first.lerp_(gradient, 1 - hyper.opt_adam_beta_1)
        second.lerp_(gradient.square(), 1 - hyper.opt_adam_beta_2)
        corrected = (second / (1 - hyper.opt_adam_beta_2 ** (step + 1))).sqrt() + 1e-9
        rate = hyper.opt_base_learning_rate * factor / (1 - hyper.opt_adam_beta_1 ** (step + 1))
        parameter.addcdiv_(first, corrected, value=-rate)
    rate = hyper.muon_learning_rate * factor
    for name, direction in orthogonalise(directions, hyper.muon_steps, dtype).items():
        rows, columns = direction.shape[-2:]
        p[name].mul_(1 - rate * hyper.opt_weight_decay).sub_(direction, alpha=rate * max(1, rows / columns) ** 0.5)


class TorchTranslator:
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        self.hyper, self.data, self.seed = hyper, data, seed
        self.device = torch_device(device)
        self.dtype, self.scale = DTYPES[device.precision], loss_scale(device.precision, FP16_LOSS_SCALE)
        self.positions = torch.from_numpy(positions(POSITIONS, hyper.d_model)).to(self.device)
        self.batches: Iterator[Batch] | None = None
        self.questions = Kept(self.made_questions)
        self.steps_per_epoch = 0
        self.p: Parameters = {}
        self.moments: Parameters = {}
        self.load_state_dict({**initial_parameters(hyper, vocabulary(data), seed), "step": np.array(0)})

    def train_until(self, samples: int) -> TrainStats:
        """Take whole steps until `samples` sentence pairs have been seen."""
        if self.batches is None:
            data = Batches(self.data["train_source"], self.data["train_target"], self.hyper, self.seed)
            self.steps_per_epoch = data.steps_per_epoch
            self.batches = data.iterate(self.step)
        size = self.hyper.global_batch_size
        while True:
            loss = self.train_step(next(self.batches), self.hyper.learning_rate(self.step, self.steps_per_epoch))
            self.step += 1
            if self.step * size >= samples:
                return TrainStats(self.step * size, float(loss))

    def train_step(self, batch: Batch, factor: float) -> torch.Tensor:
        """One step at `factor` times the learning rates; the loss, a mean over the target's subwords."""
        loss = self.loss(batch)
        computed = torch.autograd.grad(loss * self.scale, list(self.p.values()))
        gradients = unscaled(dict(zip(self.p, computed, strict=True)), self.scale)
        update(self.p, self.moments, gradients, self.hyper, self.step, factor, self.dtype)
        return loss.detach()

    def loss(self, batch: Batch) -> torch.Tensor:
        """Cross entropy with label smoothing, with dropout."""
        source, inputs, labels, *noise = (
            self.on_device(a) for a in (batch.source, batch.inputs, batch.labels, *batch.noise)
        )
        p = self.cast()
        drop_source, drop_target = (Dropout(sites, self.hyper.dropout) for sites in noise)
        logits, _ = decode(p, inputs, encode(p, source, self.hyper, drop_source), self.hyper, drop_target)
        return F.cross_entropy(
            logits.flatten(0, 1).float(), labels.flatten().long(), ignore_index=PAD,
            label_smoothing=self.hyper.label_smoothing,
        )  # fmt: skip

    @torch.no_grad()
    def logits(self, source: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """Logits float32 [B, T, V] of the subword after each of `inputs` [B, T], without dropout."""
        p, keep = self.cast(), Dropout(None, 0)
        tensor, given = (self.on_device(a) for a in (source, inputs))
        logits, _ = decode(p, given, encode(p, tensor, self.hyper, keep), self.hyper, keep)
        return logits.float().cpu().numpy()

    @torch.no_grad()
    def begin(self, source: torch.Tensor) -> Step:
        """The one-token step for translating `source` [B, S], with a cache of keys and values."""
        p, keep, beam = self.cast(), Dropout(None, 0), self.hyper.beam_size
        memory = encode(p, source, self.hyper, keep)
        empty = torch.zeros(len(source) * beam, 0, self.hyper.d_model, dtype=self.dtype, device=self.device)
        cache: Cache = [[empty, empty]] * self.hyper.decoder_layers

        @torch.no_grad()
        def step(subwords: np.ndarray, parents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            nonlocal cache
            inputs, rows = (self.on_device(a) for a in (subwords, parents))
            past = [[x[rows] for x in kv] for kv in cache]
            whole, cache = decode(p, inputs[:, None], memory, self.hyper, keep, past)
            logits = whole[:, 0].float()
            scores, found = logits.topk(beam + 1)
            return (scores - logits.logsumexp(1, keepdim=True)).cpu().numpy(), found.cpu().numpy()

        return step

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The translation of each test sentence."""
        return translate(self.begin, self.questions.of(data), self.data["subword_model"], self.hyper)

    def made_questions(self, data: Mapping[str, np.ndarray]) -> list[tuple[np.ndarray, torch.Tensor]]:
        """The test sentences, as `translate` takes them."""
        return [(chosen, self.on_device(batch)) for chosen, batch in questions(data["test_source"])]

    def cast(self) -> Parameters:
        """The parameters in the training precision, but the embeddings; the latter in it as the `output` layer."""
        cast = {name: value.to(self.dtype) for name, value in self.p.items() if name != "embedding"}
        embedding = self.p["embedding"]
        return cast | {"embedding": embedding, "output": embedding.to(self.dtype), "positions": self.positions}

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, the optimizers' moments and the step."""
        return {**to_numpy(self.p), **to_numpy(self.moments), "step": np.array(self.step)}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over a state of either framework; without moments they start at zero."""
        tensors = {
            name: torch.from_numpy(np.array(value, np.float32)).to(self.device)
            for name, value in state.items()
            if name != "step"
        }
        self.p = {name: tensor.requires_grad_() for name, tensor in tensors.items() if "/" not in name}
        self.moments = {
            moment: tensors.get(moment, torch.zeros_like(value, requires_grad=False))
            for name, value in self.p.items()
            for moment in ((f"first/{name}",) if is_matrix(name) else (f"first/{name}", f"second/{name}"))
        }
        self.step = int(state["step"])
        self.batches = None

    def on_device(self, values: np.ndarray) -> torch.Tensor:
        """The values as a tensor."""
        return torch.from_numpy(values).to(self.device)


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TorchTranslator:
    """The implementation, warmed up on made-up sentences; its state is that of the seed."""
    keep_freed_memory()
    hyper = Hyperparameters.of(hyperparameters)
    made = TorchTranslator(hyper, data, seed, device)
    initial = made.state_dict()
    rows = [np.full(16, 5)] * hyper.global_batch_size
    made.train_step(make_batch(hyper, rows, rows, [0]), 0.0)
    step = made.begin(made.on_device(np.full((8, 16), 5, np.int32)))
    step(np.full(8 * hyper.beam_size, 5), np.arange(8 * hyper.beam_size))
    made.load_state_dict(initial)
    return made
