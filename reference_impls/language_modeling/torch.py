"""Language modelling in PyTorch: training step, evaluation. The network is in `torch_network.py`.

`pilot` and `full` have another model: `torch_gpt.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from reference_impls.evaluation_cache import EvaluationCache
from reference_impls.language_modeling.shared import (
    AUDITED,
    EVAL_SEGMENT,
    STREAMS,
    Batch,
    Batches,
    Hyperparameters,
    initial_carry,
    initial_parameters,
    is_matrix,
    made_up_text,
    nothing_audited,
    places,
    predictions,
    rare_words,
    rooms,
    segments,
)
from reference_impls.language_modeling.torch_gpt import TorchGPT
from reference_impls.language_modeling.torch_gpt import build as build_gpt
from reference_impls.language_modeling.torch_network import Carry, LanguageModel, Rare
from reference_impls.recipe import dropout_seed
from reference_impls.shares import require, share, steps
from reference_impls.torch_muon import Muon
from reference_impls.torch_shared import (
    TorchTrainer,
    all_at_once,
    autocast,
    compiled,
    dtype,
    grad_scaler,
    in_training,
    on_device,
    prepare,
    set_learning_rate,
    torch_device,
    warm_ups,
)
from reference_impls.torch_workers import Workers
from suite.harness.implementation import Device
from suite.harness.memory import keep_freed_memory

ACCELERATORS = 1024
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
SHARED_BY = ("segment_length", "sequence_length")


class TorchLanguageModel(TorchTrainer[Hyperparameters, Batch]):
    """The implementation; see `suite.harness.implementation.Implementation`."""

    def __init__(self, hyper: Hyperparameters, data: Mapping[str, np.ndarray], seed: int, device: Device) -> None:
        require(device, hyper.streams, "streams")
        steps(len(data["train_tokens"]), hyper.global_batch_size, "words")
        self.hyper, self.data, self.seed, self.worker = hyper, data, seed, device
        self.device, self.dtype = torch_device(device), dtype(device)
        vocabulary, length = len(data["vocabulary"]), len(data["train_tokens"])
        self.tails = hyper.tails(vocabulary)
        # for the rare words' places; on a CPU, where no shape is compiled, exactly as many as there are
        streams = len(share(np.arange(hyper.streams), device))
        sizes = (streams * hyper.segment_length, EVAL_SEGMENT)
        self.rooms = {n: [] if self.device.type == "cpu" else rooms(hyper, vocabulary, n) for n in sizes}
        self.workers = Workers(device)
        self.model: LanguageModel = LanguageModel(hyper, vocabulary).to(self.device)
        self.parallel = self.workers.parallel(self.model)
        named = dict(self.model.named_parameters())
        matrices, others = ([p for name, p in named.items() if is_matrix(name) == matrix] for matrix in (True, False))
        self.muon = Muon(matrices, lr=0.0, momentum=hyper.muon_momentum, ns_steps=hyper.muon_steps, dtype=self.dtype)
        betas = (hyper.opt_adam_beta_1, hyper.opt_adam_beta_2)
        at_once = all_at_once(self.device)
        self.adam = torch.optim.Adam(others, lr=0.0, betas=betas, eps=hyper.opt_adam_epsilon, **at_once)
        self.optimizers = (self.muon, self.adam)
        self.scaler = grad_scaler(self.device, self.dtype)
        prepare(self.optimizers)
        self.carry = self.tensors(initial_carry(hyper, streams))
        self.test_carry = self.tensors(initial_carry(hyper, 1) | nothing_audited(hyper, len(data["audit_positions"])))
        self.text = torch.zeros(length, dtype=torch.int32, device=self.device)  # filled by the first step
        self.places = torch.from_numpy(share(places(length, hyper), device, 1)).to(self.device)
        self.segments = EvaluationCache(self.made_segments)
        self.loss = compiled(self._loss, self.device)
        self.evaluate = compiled(self._evaluate, self.device)
        self.distribution = compiled(self._distribution, self.device)
        self.load_state_dict({**initial_parameters(hyper, vocabulary, seed), "step": np.array(0)})

    def feed(self) -> Iterator[Batch]:
        """Copy the text to the device; return the batches."""
        tokens = self.data["train_tokens"]
        self.text.copy_(torch.from_numpy(tokens.astype(np.int32)))
        return Batches(tokens, self.hyper, self.seed).iterate(self.step)

    def train_step(self, batch: Batch) -> torch.Tensor:
        """Take one step; return the mean loss over the batch, in nats per word."""
        hyper = self.hyper
        if batch.fresh:
            self.begin_anew(self.carry)
        read = self.text[(self.places + batch.begin) % len(self.text)].long()
        rare_words, rare_targets = (self.rare(share(array, self.worker, 1)) for array in (batch.words, batch.targets))
        torch.manual_seed(dropout_seed(self.seed, self.step, self.worker.rank))
        in_training(self.model)
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss, carry = self.loss(read[:-1], read[1:], rare_words, rare_targets, self.carry)
        factor = hyper.learning_rate(self.step)
        set_learning_rate(self.muon, hyper.muon_learning_rate * factor)
        set_learning_rate(self.adam, hyper.adam_learning_rate * factor)
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        for optimizer in self.optimizers:
            self.scaler.step(optimizer)
        self.scaler.update()
        self.take_over(self.carry, carry)  # not before the gradients, which need the old one
        return loss.detach()

    def _loss(
        self, words: torch.Tensor, targets: torch.Tensor, rare_words: Rare, rare_targets: Rare, carry: Carry
    ) -> tuple[torch.Tensor, Carry]:
        """The loss of words [T, B] per word of the batch, and what the next batch takes over."""
        with autocast(self.device, self.dtype):
            x, pointed, after = self.parallel(words, rare_words, carry)
            summed = -self.model.log_probabilities(x, pointed, targets, rare_targets).sum()
            return summed / (self.hyper.global_batch_size / self.workers.size), after

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The log-probabilities of the test text, read as one stream, and the audited distributions.

        Only the first worker reads it, since it is one stream.
        """
        if self.worker.rank > 0:
            return []
        log_probabilities, distributions = self.read_segments(self.segments.of(data))
        return predictions(log_probabilities, distributions, data["test_tokens"], self.data["audit_positions"])

    @torch.no_grad()
    def read_segments(self, parts: Sequence[Sequence[Any]]) -> tuple[np.ndarray, np.ndarray]:
        """Log-probabilities float32 [segments, EVAL_SEGMENT], and the distributions [A, V] at the audited places."""
        self.model.eval()
        found = torch.empty(len(parts), EVAL_SEGMENT, device=self.device)
        self.begin_anew(self.test_carry)
        for part, into in zip(parts, found, strict=True):
            log_probabilities, after = self.evaluate(self.test_carry, *part)
            into.copy_(log_probabilities)
            self.take_over(self.test_carry, after)
        return found.cpu().numpy(), self.distribution(self.test_carry).cpu().numpy()

    def _evaluate(
        self,
        carry: Carry,
        words: torch.Tensor,
        targets: torch.Tensor,
        rare_words: Rare,
        rare_targets: Rare,
        at: torch.Tensor,
        here: torch.Tensor,
    ) -> tuple[torch.Tensor, Carry]:
        """The log-probabilities [EVAL_SEGMENT] of a segment, and what the next takes over, with what is audited."""
        with autocast(self.device, self.dtype):
            x, pointed, after = self.model(words, rare_words, carry)
            log_probabilities = self.model.log_probabilities(x, pointed, targets, rare_targets)[:, 0]
        for name, value in zip(AUDITED, (x, *pointed), strict=True):
            found = value[:, 0].index_select(0, at)
            after[name] = torch.where(here.view(-1, *[1] * (found.ndim - 1)), found, carry[name])
        return log_probabilities, after

    def _distribution(self, carry: Carry) -> torch.Tensor:
        """The log-probabilities float32 [A, V] of all words at the audited places."""
        x, places, chosen, left = (carry[name] for name in AUDITED)
        with autocast(self.device, self.dtype):
            return self.model.distribution(x, (places, chosen, left))

    def made_segments(self, data: Mapping[str, np.ndarray]) -> list[list[Any]]:
        """The segments of the test text, as `_evaluate` takes them."""
        parts = segments(data["test_tokens"], self.data["vocabulary"], self.data["audit_positions"])
        return [
            [
                *(on_device(array, self.device) for array in (part.words, part.targets)),
                *(self.rare(array) for array in (part.words, part.targets)),
                *(on_device(array, self.device) for array in (part.at, part.here)),
            ]
            for part in parts
        ]

    def rare(self, words: np.ndarray) -> Rare:
        """The places of rare words, brought to the device in one copy; see `shared.rare_words`."""
        arrays = rare_words(words, self.tails, self.rooms[words.size])
        if not arrays:
            return ()
        together = on_device(np.concatenate(arrays), self.device)
        return torch.split(together, [len(array) for array in arrays])

    def tensors(self, arrays: Mapping[str, np.ndarray]) -> Carry:
        """The arrays on the device."""
        return {name: torch.from_numpy(array).to(self.device) for name, array in arrays.items()}

    def begin_anew(self, carry: Carry) -> None:
        """Forget the text read so far."""
        for name, value in carry.items():
            value.fill_(-1 if name == "words" else 0)

    def take_over(self, carry: Carry, after: Carry) -> None:
        """Keep what the next segment takes over, in memory that CUDA graphs do not write to."""
        for name, value in after.items():
            carry[name].copy_(value)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters, moments, what the layers carry along the text, and the step."""
        carry = {
            f"carry/{name}": self.workers.gathered(value, STREAMS[name]).cpu().numpy().copy()
            for name, value in self.carry.items()
        }
        return super().state_dict() | carry

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Load a state of either framework; moments that it lacks start at zero, and a carry starts anew."""
        super().load_state_dict(state)
        self.begin_anew(self.carry)
        for name, value in self.carry.items():
            if f"carry/{name}" in state:
                value.copy_(torch.from_numpy(share(np.asarray(state[f"carry/{name}"]), self.worker, STREAMS[name])))

    def warm_up(self) -> None:
        """Compile steps and evaluations, on a made-up text."""
        tokens = made_up_text(self.hyper, len(self.data["vocabulary"]))
        for _ in warm_ups(self.device):
            self.train_step(next(Batches(tokens, self.hyper, 0).iterate(0)))
            self.read_segments(self.made_segments({"test_tokens": tokens}))


def build(
    hyperparameters: Mapping[str, Any], data: Mapping[str, np.ndarray], seed: int, device: Device
) -> TorchLanguageModel | TorchGPT:
    """The implementation, warmed up on random words; its state comes from `seed`.

    A recipe that names a model gets the GPT.
    """
    if "model" in hyperparameters:
        return build_gpt(hyperparameters, data, seed, device)
    keep_freed_memory()
    return TorchLanguageModel(Hyperparameters.of(hyperparameters), data, seed, device).warmed_up()
