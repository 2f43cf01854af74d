"""How a Transformer in PyTorch translates, whichever way it is trained; the search is in `torch_search.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from reference_impls.evaluation_cache import EvaluationCache
from reference_impls.shares import share
from reference_impls.torch_shared import TorchTrainer, autocast, compiled, dtype, on_device, own_attention, torch_device
from reference_impls.torch_workers import Workers
from reference_impls.trainer import Fed, Hyper
from reference_impls.translation.search import longest, questions, together, translate
from reference_impls.translation.shared import CHECKED, Network, padded, vocabulary
from reference_impls.translation.torch_network import Memory, Transformer
from reference_impls.translation.torch_search import Beams, step
from suite.harness.implementation import Device


class Translator(TorchTrainer[Hyper, Fed]):
    """The network on its device, and what it does with the sentences of the test."""

    def __init__(self, hyper: Network, data: Mapping[str, np.ndarray], device: Device) -> None:
        self.network, self.data, self.kind, self.worker = hyper, data, device.kind, device
        self.device, self.dtype = torch_device(device), dtype(device)
        own_attention()
        self.workers = Workers(device)
        self.model: Transformer = Transformer(hyper, vocabulary(data), self.dtype).to(self.device)
        self.search_step = compiled(self._search_step, self.device)
        self.together = together(hyper, device)
        self.beams: dict[int, Beams] = {}  # for each length of source, on a GPU
        self.questions = EvaluationCache(self.made_questions)

    @torch.no_grad()
    def logits(self, source: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """Logits float32 [B, T, V] of the subword after each of `inputs` [B, T], without dropout."""
        self.model.eval()
        with autocast(self.device, self.dtype):
            logits = self.model(on_device(source, self.device), on_device(inputs, self.device))
        found: np.ndarray = logits.float().cpu().numpy()
        return found

    def predict(self, data: Mapping[str, np.ndarray]) -> Sequence[Any]:
        """The translation of each test sentence."""
        with autocast(self.device, self.dtype):  # around it all, so that weights are cast once
            return translate(self.begin, self.questions.of(data), self.data["subword_model"], self.kind)

    def made_questions(self, data: Mapping[str, np.ndarray]) -> list[tuple[np.ndarray, torch.Tensor]]:
        """The test sentences, as `translate` takes them."""
        asked = questions(share(padded(data["test_source"]), self.worker), self.together, self.kind)
        return [(chosen, on_device(source, self.device)) for chosen, source in asked]

    @torch.no_grad()
    def begin(self, source: torch.Tensor) -> Search:
        """The search for the translations of sentences [B, S]."""
        self.model.eval()
        length = source.shape[1]
        with autocast(self.device, self.dtype):
            memory = self.model.encode(source)
        if self.kind == "cpu":
            return Search(self, Beams.begin(memory, self.network.beam_size, longest(length)))
        if length not in self.beams:
            self.beams[length] = self.placed(memory, length)
        self.beams[length].take(memory)
        return Search(self, self.beams[length])

    def placed(self, memory: Memory, length: int) -> Beams:
        """Beams for sources of a length, in the memory of those for longer ones if there are any.

        They stay there: a CUDA graph is replayed on the tensors with which it was captured.
        """
        most = max(self.beams, default=0)
        if length < most:
            beams = self.beams[most].shorter(length, longest(length))
        else:
            beams = Beams.begin(memory, self.network.beam_size, longest(length))
        for tensor in beams.tensors():
            torch._dynamo.mark_static_address(tensor)
        return beams

    def warm_up_search(self, lengths: Sequence[int]) -> None:
        """Compile the search for sources of these lengths, the longest first, so that the others fit into its memory.

        It runs in the same autocast as `predict`, since what is compiled depends on it.
        """
        with autocast(self.device, self.dtype):
            for length in sorted(lengths, reverse=True):
                self.begin(torch.full((self.together, length), 5, dtype=torch.int32, device=self.device)).advance()

    def _search_step(self, beams: Beams, width: int) -> None:
        with autocast(self.device, self.dtype):
            step(self.model, beams, self.network, width)


class Search:
    """See `search.Search`."""

    def __init__(self, made: Translator[Any, Any], beams: Beams) -> None:
        self.made, self.beams, self.length = made, beams, 0

    def advance(self) -> None:
        """Lengthen all hypotheses by CHECKED subwords."""
        whole = self.beams.history.shape[2]
        for _ in range(CHECKED[self.made.kind]):
            self.length += 1
            self.made.search_step(self.beams, self.length if self.made.kind == "cpu" else whole)

    def done(self) -> np.ndarray:
        """Which of the sentences are done, bool [B]; waits for the device."""
        return self.beams.done.cpu().numpy()

    def results(self) -> tuple[np.ndarray, np.ndarray]:
        """The translations so far [B, L], and how long they are [B]."""
        rows, counts = self.beams.results()
        return rows.cpu().numpy(), counts.cpu().numpy()

    def keep(self, sentences: np.ndarray) -> None:
        """Go on with these sentences alone, int64 [b]."""
        self.beams = self.beams.only(on_device(sentences, self.made.device))
