"""The language model in PyTorch: embeddings and adaptive softmax, gated linear recurrence, pointer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import nn

from reference_impls.language_modeling.shared import BLOCK, EPSILON, TINY, Hyperparameters
from reference_impls.torch_cross_entropy import cross_entropy

Carry = dict[str, torch.Tensor]  # see `shared.initial_carry`
Rare = Sequence[torch.Tensor]  # see `shared.rare_words`; empty where no word is rare
Pointed = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # see `Pointer`


def normalise(x: torch.Tensor) -> torch.Tensor:
    """`x` scaled to root mean square 1 along the last axis."""
    return F.rms_norm(x, x.shape[-1:], eps=EPSILON)


def scan(keep: torch.Tensor, new: torch.Tensor, last: torch.Tensor, backwards: bool = False) -> torch.Tensor:
    """h[t] = keep[t] h[t-1] + new[t] along the first axis of `keep` and `new` [T, ...], from h[-1] = `last` [...].

    With `backwards` h[t] = keep[t] h[t+1] + new[t], from h[T] = `last`. All blocks of `BLOCK` places are stepped
    through at once, twice: first from zero, then from the end of the block before. These ends come from such a
    recurrence over the blocks. So it takes some 24 operations for every factor of 8 in T. On a CPU (two cores of an AMD
    EPYC) 4,096 places of 256 numbers take 1.2 ms, where a loop over time takes 25 and doubling 12.
    """
    whole = len(new) % BLOCK == 0 and len(new) > BLOCK
    steps = list(
        zip(*(a.reshape(-1, BLOCK, *a.shape[1:]).unbind(1) if whole else a.unbind() for a in (new, keep)), strict=True)
    )
    steps = steps[::-1] if backwards else steps
    if whole:
        end, decay = steps[0]
        for added, kept in steps[1:]:
            end, decay = torch.addcmul(added, kept, end), kept * decay
        ends = scan(decay, end, last, backwards)
        last = torch.cat([ends[1:], last[None]] if backwards else [last[None], ends[:-1]])
    states = []
    for added, kept in steps:
        last = torch.addcmul(added, kept, last)
        states.append(last)
    states = states[::-1] if backwards else states
    return torch.stack(states, 1).flatten(0, 1) if whole else torch.stack(states)


class Recurrence(torch.autograd.Function):
    """`scan`, whose gradient is another scan, backwards; `last` gets none."""

    @staticmethod
    def forward(ctx: Any, keep: torch.Tensor, new: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        """The states [T, B, W] for `keep` and `new` [T, B, W] and `last` [B, W]."""
        states = scan(keep, new, last)
        ctx.save_for_backward(keep, states, last)
        return states

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        """The gradients of `keep` and `new`."""
        keep, states, last = ctx.saved_tensors
        later = torch.cat([keep[1:], torch.zeros_like(keep[:1])])
        to_new = scan(later, gradient, torch.zeros_like(last), backwards=True)
        return to_new * torch.cat([last[None], states[:-1]]), to_new, None


recurrence: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor] = Recurrence.apply


class StreamDropout(nn.Dropout):
    """Variational dropout (Gal and Ghahramani 2016): one mask for all words of a stream."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` [T, B, W]; in training some of its values are zeroed and the others scaled up."""
        if not self.training or self.p == 0:
            return x
        return x * F.dropout(torch.ones_like(x[0]), self.p)


class Tail(nn.Module):
    """Rare words, with narrow embeddings that are input (Baevski and Auli 2019) and output weights alike."""

    def __init__(self, size: int, narrow: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size, narrow)
        self.project = nn.Linear(narrow, width, bias=False)
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Embeddings float32 [N, W] of words [N], which count from the tail's first."""
        rows: torch.Tensor = self.project(self.embedding(words)).float()
        return rows

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """Logits [N, size] of x [N, W]."""
        return F.linear(x @ self.project.weight, self.embedding.weight, self.bias)


class Vocabulary(nn.Module):
    """Embeds words and, with the same weights, predicts them: an adaptive softmax (Grave et al. 2017).

    The rows of `head` are the frequent words, and after them a class for each tail.
    """

    def __init__(self, hyper: Hyperparameters, words: int) -> None:
        super().__init__()
        self.bounds = hyper.tails(words)
        self.frequent = self.bounds[0][0] if self.bounds else words
        self.head = nn.Embedding(self.frequent + len(self.bounds), hyper.width)
        self.bias = nn.Parameter(torch.zeros(self.frequent + len(self.bounds)))
        self.tails = nn.ModuleList(
            Tail(end - first, narrow, hyper.width)
            for (first, end), narrow in zip(self.bounds, hyper.tail_widths, strict=True)
        )

    def forward(self, words: torch.Tensor, rare: Rare) -> torch.Tensor:
        """Embeddings float32 [N, W] of words [N]."""
        rows = [self.head(words.clamp(max=self.frequent - 1))]
        for tail, within, _ in self._each(words, rare):
            rows.append(tail(within))
        return rows[0] if len(rows) == 1 else torch.cat(rows).index_select(0, rare[0])

    def log_probabilities(self, x: torch.Tensor, words: torch.Tensor, rare: Rare) -> torch.Tensor:
        """Log-probabilities float32 [N] of words [N] after x [N, W]."""
        classes = words.clamp(max=self.frequent - 1)
        for i, (first, _) in enumerate(self.bounds):
            classes = torch.where(words >= first, self.frequent + i, classes)
        known = -cross_entropy(self._head_logits(x), classes)
        within = [torch.zeros_like(known)]
        for tail, words_within, places in self._each(words, rare):
            within.append(-cross_entropy(tail.logits(x.index_select(0, places)), words_within))
        return known if len(within) == 1 else known + torch.cat(within).index_select(0, rare[0])

    def distribution(self, x: torch.Tensor) -> torch.Tensor:
        """The log-probabilities float32 [N, V] of all words after x [N, W]."""
        head = self._head_logits(x).float().log_softmax(-1)
        parts = [head[:, : self.frequent]]
        for i, tail in enumerate(self.tails):
            within = cast(Tail, tail).logits(x).float().log_softmax(-1)
            parts.append(head[:, self.frequent + i, None] + within)
        return torch.cat(parts, -1)

    def _head_logits(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.head.weight, self.bias)

    def _each(self, words: torch.Tensor, rare: Rare) -> list[tuple[Tail, torch.Tensor, torch.Tensor]]:
        """Each tail, the words at its places, counted from its first, and these places; see `rare_words`."""
        return [
            (cast(Tail, tail), (words.index_select(0, places) - first).clamp(0, end - first - 1), places)
            for tail, places, (first, end) in zip(self.tails, rare[1:], self.bounds, strict=True)
        ]


class Layer(nn.Module):
    """A residual branch (Bradbury et al. 2017): gates from each word and the one before it, a recurrence, a mix."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gates = nn.Parameter(torch.zeros(3, width, 2 * width))  # what is new, what is kept, what is put out
        self.forget = nn.Parameter(torch.zeros(width))
        self.mix = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, carry: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """float32 [T, B, W] of x [T, B, W], and the last input and state [2, B, W]; `carry` has those before."""
        inputs = normalise(x)
        before = torch.cat([carry[:1], inputs[:-1]])
        gates = F.linear(torch.cat([before, inputs], -1), self.gates.flatten(0, 1)).float()
        new, forget, out = gates.chunk(3, -1)
        keep = torch.sigmoid(forget + self.forget)
        states = recurrence(keep, (1 - keep) * new, carry[1])
        return self.mix(states * F.silu(out)).float(), torch.stack([inputs[-1], states[-1]]).detach()


class Pointer(nn.Module):
    """Which of the last L = segment_length words comes next: a pointer sentinel mixture (Merity et al. 2017)."""

    def __init__(self, hyper: Hyperparameters) -> None:
        super().__init__()
        self.window = hyper.segment_length
        self.query = nn.Linear(hyper.width, hyper.width, bias=False)
        self.sentinel = nn.Linear(hyper.width, 1)

    def forward(self, x: torch.Tensor, words: torch.Tensor, carry: Carry) -> Pointed:
        """For the outputs x [T, B, W] at words [T, B], T a multiple of L: the words [T, B, 2 L] around each,
        the probability float32 [T, B, 2 L] of each of these, and that which is left to the vocabulary, [T, B].
        """
        window = self.window

        def around(sequence: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
            blocks = torch.cat([before, sequence]).reshape(-1, window, *sequence.shape[1:])
            return torch.cat([blocks[:-1], blocks[1:]], 1).transpose(1, 2)

        keys, places = around(x, carry["outputs"]), around(words, carry["words"])[:, :, None]
        here = keys[:, :, window:]
        scores = (self.query(here) @ keys.mT).float() / x.shape[-1]
        place, now = torch.arange(2 * window, device=x.device), torch.arange(window, device=x.device)[:, None]
        seen = (now < place) & (place <= now + window) & (places >= 0)
        sentinel = self.sentinel(here).float()
        chosen = torch.cat([scores.masked_fill(~seen, -torch.inf), sentinel], -1).softmax(-1)
        places = places.expand(scores.shape)
        chosen, places = (a.transpose(1, 2).flatten(0, 1) for a in (chosen, places))
        return places, chosen[..., :-1], chosen[..., -1]


class LanguageModel(nn.Module):
    """A gated linear recurrence with an adaptive softmax and a pointer."""

    def __init__(self, hyper: Hyperparameters, words: int) -> None:
        super().__init__()
        self.window = hyper.segment_length
        self.vocabulary = Vocabulary(hyper, words)
        self.layers = nn.ModuleList(Layer(hyper.width) for _ in range(hyper.layers))
        self.pointer = Pointer(hyper)
        self.dropout = StreamDropout(hyper.dropout)

    def forward(self, words: torch.Tensor, rare: Rare, carry: Carry) -> tuple[torch.Tensor, Pointed, Carry]:
        """The output float32 [T, B, W] for words [T, B], what the pointer says, what the next segment takes over."""
        x = self.dropout(normalise(self.vocabulary(words.flatten(), rare)).view(*words.shape, -1))
        carried = []
        for layer, before in zip(self.layers, carry["layers"], strict=True):
            y, last = layer(x, before)
            x = x + self.dropout(y)
            carried.append(last)
        x = self.dropout(normalise(x))
        after = {"layers": torch.stack(carried), "outputs": x[-self.window :].detach(), "words": words[-self.window :]}
        return x, self.pointer(x, words, carry), after

    def log_probabilities(self, x: torch.Tensor, pointed: Pointed, targets: torch.Tensor, rare: Rare) -> torch.Tensor:
        """Log-probabilities float32 [T, B] of targets [T, B] after x [T, B, W], by pointer and vocabulary together."""
        places, chosen, left = pointed
        again = (chosen * (places == targets[..., None])).sum(-1)
        known = self.vocabulary.log_probabilities(x.flatten(0, 1), targets.flatten(), rare)
        return torch.log(left * known.view(targets.shape).exp() + again + TINY)

    def distribution(self, x: torch.Tensor, pointed: Pointed) -> torch.Tensor:
        """The log-probabilities float32 [N, V] of all words after x [N, W], with the pointer's [N, 2 L] and [N]."""
        places, chosen, left = pointed
        known = left[:, None] * self.vocabulary.distribution(x).exp()
        return torch.log(known.scatter_add(1, places.clamp(min=0), chosen) + TINY)
