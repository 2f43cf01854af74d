"""Language modelling in PyTorch: network, adaptive softmax, pointer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from reference_impls.language_modeling.shared import Hyperparameters

EPSILON = 1e-6
TINY = 1e-30  # keeps the logarithm of a probability finite
Parameters = dict[str, torch.Tensor]
Pointed = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # see `pointer`


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
        for added, kept, out in zip(new.unbind(), keep.unbind(), states.unbind(), strict=True):
            state = torch.addcmul(added, kept, state, out=out)
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
    carry: Parameters,
    masks: torch.Tensor | None,
    hyper: Hyperparameters,
    dtype: torch.dtype,
) -> tuple[torch.Tensor, Parameters]:
    """The output float32 [T, B, W] for words [T, B], and what the next segment takes over (see `initial_carry`)."""
    x = embed(p, words, hyper, dtype)
    if masks is not None:
        x = x * masks[0]
    carried = []
    for i in range(hyper.layers):
        inputs = normalise(x)
        before = torch.cat([carry["layers"][i, :1], inputs[:-1]])
        new, forget, out = multiply(torch.cat([before, inputs], -1), p[f"gates{i}"], dtype).chunk(3, -1)
        keep = torch.sigmoid(forget + p[f"forget{i}"])
        states = recurrence(keep, (1 - keep) * new, carry["layers"][i, 1])
        y = multiply(states * F.silu(out), p[f"mix{i}"], dtype)
        x = x + (y if masks is None else y * masks[i + 1])
        carried.append(torch.stack([inputs[-1], states[-1]]).detach())
    x = normalise(x)
    if masks is not None:
        x = x * masks[-1]
    last = slice(-hyper.segment_length, None)
    return x, {"layers": torch.stack(carried), "outputs": x[last].detach(), "words": words[last]}


def head_logits(p: Parameters, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """float32 [N, first cutoff + tails] of x [N, W]: the frequent words, and the tails as classes."""
    size = len(p["head"]) + len(p["tails"])
    return multiply(x, torch.cat([p["head"], p["tails"]]), dtype, p["bias"][:size])


def tail_logits(p: Parameters, x: torch.Tensor, i: int, first: int, end: int, dtype: torch.dtype) -> torch.Tensor:
    """float32 [N, end - first] of x [N, W]: the words of tail `i`."""
    bias = p["bias"][first + len(p["tails"]) : end + len(p["tails"])]
    return multiply(multiply(x, p[f"project{i}"].T, dtype), p[f"tail{i}"], dtype, bias)


def of_vocabulary(
    p: Parameters, x: torch.Tensor, targets: torch.Tensor, hyper: Hyperparameters, dtype: torch.dtype
) -> torch.Tensor:
    """Log-probabilities float32 [N] of targets [N] after x [N, W], by the adaptive softmax (Grave et al. 2017)."""
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


def whole_vocabulary(p: Parameters, x: torch.Tensor, hyper: Hyperparameters, dtype: torch.dtype) -> torch.Tensor:
    """The log-probabilities float32 [N, V] of all words after x [N, W]."""
    head = len(p["head"])
    first_choice = F.log_softmax(head_logits(p, x, dtype), -1)
    parts = [first_choice[:, :head]]
    for i, (first, end) in enumerate(hyper.tails(len(p["bias"]) - len(p["tails"]))):
        within = F.log_softmax(tail_logits(p, x, i, first, end, dtype), -1)
        parts.append(first_choice[:, head + i, None] + within)
    return torch.cat(parts, -1)


def pointer(
    p: Parameters, x: torch.Tensor, words: torch.Tensor, carry: Parameters, hyper: Hyperparameters, dtype: torch.dtype
) -> Pointed:
    """Which of the last L = segment_length words comes next (pointer sentinel mixture, Merity et al. 2017).

    For the outputs x [T, B, W] at words [T, B], T a multiple of L: the words [T, B, 2 L] around each, the probability
    float32 [T, B, 2 L] of each of these, and that which is left to the vocabulary, float32 [T, B].
    """
    window = hyper.segment_length

    def around(sequence: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        blocks = torch.cat([before, sequence]).reshape(-1, window, *sequence.shape[1:])
        return torch.cat([blocks[:-1], blocks[1:]], 1).transpose(1, 2)

    keys, places = around(x, carry["outputs"]), around(words, carry["words"])[:, :, None]
    here = keys[:, :, window:]
    scores = (multiply(here, p["query"], dtype).to(dtype) @ keys.to(dtype).mT).float() / hyper.width
    place, now = torch.arange(2 * window, device=x.device), torch.arange(window, device=x.device)[:, None]
    seen = (now < place) & (place <= now + window) & (places >= 0)
    sentinel = multiply(here, p["sentinel"], dtype, p["sentinel_bias"])
    chosen = torch.cat([scores.masked_fill(~seen, -torch.inf), sentinel], -1).softmax(-1)
    places = places.expand(scores.shape)
    chosen, places = (a.transpose(1, 2).flatten(0, 1) for a in (chosen, places))
    return places, chosen[..., :-1], chosen[..., -1]


def log_probabilities(
    p: Parameters,
    x: torch.Tensor,
    targets: torch.Tensor,
    pointed: Pointed,
    hyper: Hyperparameters,
    dtype: torch.dtype,
) -> torch.Tensor:
    """float32 [T, B] of targets [T, B] after x [T, B, W]: the pointer's share and the vocabulary's."""
    places, chosen, left = pointed
    again = (chosen * (places == targets[..., None])).sum(-1)
    known = of_vocabulary(p, x.flatten(0, 1), targets.flatten(), hyper, dtype).reshape(targets.shape)
    return torch.log(left * known.exp() + again + TINY)


def distribution(
    p: Parameters, x: torch.Tensor, pointed: Pointed, hyper: Hyperparameters, dtype: torch.dtype
) -> torch.Tensor:
    """The log-probabilities float32 [N, V] of all words after x [N, W], with the pointer's [N, 2 L] and [N]."""
    places, chosen, left = pointed
    known = left[:, None] * whole_vocabulary(p, x, hyper, dtype).exp()
    return torch.log(known.scatter_add(1, places.clamp(min=0), chosen) + TINY)
