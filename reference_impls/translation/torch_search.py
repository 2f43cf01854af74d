"""Beam search in PyTorch, all of it on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain

import torch

from reference_impls.translation.shared import Network
from reference_impls.translation.torch_network import KeysValues, Memory, Transformer
from tasks.translation.subwords import BEGIN, END


@dataclass
class Beams:
    """The state of the search for translations of B sentences: K hypotheses of each, of at most L subwords.

    Changed in place, so that a CUDA graph of `step` can be replayed.
    """

    position: torch.Tensor  # int64 [1], of the last subwords
    last: torch.Tensor  # int64 [B, K], the last subwords
    live: torch.Tensor  # float32 [B, K], log probabilities, best first
    history: torch.Tensor  # int64 [B, K, L], the subwords after BEGIN
    best: torch.Tensor  # float32 [B], the score of the best finished hypothesis
    found: torch.Tensor  # int64 [B, L], its subwords
    length: torch.Tensor  # int64 [B], without END
    done: torch.Tensor  # bool [B]
    parents: torch.Tensor  # int64 [B * K], in which row of the cache the keys and values of each hypothesis are
    padding: torch.Tensor  # [B, 1, 1, S], of the source
    source: Sequence[KeysValues]  # [B, heads, S, d / heads], of each layer
    cache: Sequence[KeysValues]  # [B * K, heads, L, d / heads], of each layer

    @classmethod
    def begin(cls, memory: Memory, beam: int, longest: int) -> Beams:
        """Beams before the first subword of translations of at most `longest`."""
        source, padding = memory
        batch = len(padding)
        _, heads, _, width = source[0][0].shape

        def empty(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
            return torch.empty(shape, dtype=dtype, device=padding.device)

        def cached() -> torch.Tensor:
            return empty(batch * beam, heads, longest, width, dtype=padding.dtype)

        begun = cls(
            position=empty(1),
            last=empty(batch, beam),
            live=empty(batch, beam, dtype=torch.float32),
            history=empty(batch, beam, longest),
            best=empty(batch, dtype=torch.float32),
            found=empty(batch, longest),
            length=empty(batch),
            done=empty(batch, dtype=torch.bool),
            parents=empty(batch * beam),
            padding=padding,
            source=[tuple(pair) for pair in source],
            cache=[(cached(), cached()) for _ in source],
        )
        begun.restart()
        return begun

    def restart(self) -> None:
        """Go back to before the first subword."""
        for zero in (self.position, self.history, self.found, self.done, *chain.from_iterable(self.cache)):
            zero.zero_()
        self.last.fill_(BEGIN)
        self.live.fill_(-1e9)  # at first all hypotheses of a sentence are one
        self.live[:, 0] = 0
        torch.arange(len(self.parents), out=self.parents)
        self.best.fill_(-torch.inf)
        self.length.fill_(self.found.shape[1])

    def shorter(self, source_length: int, longest: int) -> Beams:
        """Beams in the same memory, for sources of this length and translations of at most `longest`."""
        return replace(
            self,
            history=self.history[:, :, :longest],
            found=self.found[:, :longest],
            padding=self.padding[..., :source_length],
            source=[(k[:, :, :source_length], v[:, :, :source_length]) for k, v in self.source],
            cache=[(k[:, :, :longest], v[:, :, :longest]) for k, v in self.cache],
        )

    def take(self, memory: Memory) -> None:
        """Go back to before the first subword, for other sources of the same shape."""
        source, padding = memory
        self.padding.copy_(padding)
        for own, other in zip(chain.from_iterable(self.source), chain.from_iterable(source), strict=True):
            own.copy_(other)
        self.restart()

    def tensors(self) -> list[torch.Tensor]:
        """All tensors, always in the same order."""
        values = [getattr(self, field.name) for field in fields(self)]
        plain = [value for value in values if isinstance(value, torch.Tensor)]
        return plain + [tensor for value in values if isinstance(value, list) for pair in value for tensor in pair]

    def only(self, sentences: torch.Tensor) -> Beams:
        """The beams of these sentences alone, int64 [b]."""
        beam = self.last.shape[1]
        rows = (sentences[:, None] * beam + torch.arange(beam, device=sentences.device)).flatten()
        kept = {
            field.name: getattr(self, field.name).index_select(0, sentences)
            for field in fields(self)
            if field.name not in ("position", "parents", "source", "cache")
        }
        source = [tuple(x.index_select(0, sentences) for x in pair) for pair in self.source]
        cache = [tuple(x.index_select(0, self.parents[rows]) for x in pair) for pair in self.cache]
        parents = torch.arange(len(rows), device=rows.device)
        return Beams(position=self.position, parents=parents, source=source, cache=cache, **kept)

    def results(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The best translations, int64 [B, L], and how long they are; if none has ended, the likeliest hypothesis."""
        ended = self.best > -torch.inf
        return torch.where(ended[:, None], self.found, self.history[:, 0]), self.length


@torch.no_grad()
def step(model: Transformer, beams: Beams, hyper: Network, width: int) -> None:
    """Lengthen each hypothesis by one subword; `width` is at least the position after it.

    A hypothesis is scored by log probability / length ** `length_penalty`, END counted. A sentence is done when the
    best finished hypothesis scores no less than its live ones do.

    Keys and values follow their hypotheses before others are added, not after: PyTorch's compiler would then reorder
    them in one pass, which writes over rows before it has read them (pytorch/pytorch#198270).
    """
    batch, beam = beams.live.shape
    if beam > 1:
        for whole in chain.from_iterable(beams.cache):
            used = whole[:, :, :width]
            used.copy_(used.index_select(0, beams.parents))
    memory = (beams.source, beams.padding)
    logits = model.following(beams.last.flatten(), memory, beams.cache, beams.position, width)
    scores, subwords = logits.topk(beam + 1)
    scores = (scores - logits.logsumexp(1, keepdim=True)).view(batch, beam, -1)
    totals, subwords = (beams.live[:, :, None] + scores).flatten(1), subwords.view(batch, -1)
    ends = subwords == END
    penalty = (beams.position + 1) ** hyper.length_penalty

    finished, candidate = totals.masked_fill(~ends, -torch.inf).max(1)
    finished = finished / penalty
    better = ~beams.done & (finished > beams.best)
    rows = torch.arange(batch, device=logits.device)
    beams.found.copy_(torch.where(better[:, None], beams.history[rows, candidate // (beam + 1)], beams.found))
    beams.best.copy_(torch.where(better, finished, beams.best))
    beams.length.copy_(torch.where(better, beams.position, beams.length))

    live, chosen = totals.masked_fill(ends, -torch.inf).topk(beam)
    beams.live.copy_(live)
    beams.done.logical_or_(beams.best >= live[:, 0] / penalty)
    beams.last.copy_(subwords.gather(1, chosen))
    if beam > 1:
        parents = (chosen // (beam + 1) + rows[:, None] * beam).flatten()
        beams.history.copy_(beams.history.flatten(0, 1).index_select(0, parents).view(beams.history.shape))
        beams.parents.copy_(parents)
    beams.history.index_copy_(2, beams.position, beams.last[:, :, None])
    beams.position.add_(1)
