"""The Transformer in PyTorch, as functions of its parameters."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from reference_impls.translation.shared import Hyperparameters
from tasks.translation import PAD

EPSILON = 1e-5
MASKED = -1e4  # added to the logits of positions that attention must not see; within fp16's range
Parameters = dict[str, torch.Tensor]
Cache = Sequence[Sequence[torch.Tensor]]  # keys and values [B, L, d] for each layer of a decoder
Memory = tuple[Cache, torch.Tensor]  # what a decoder sees of its source: of each subword, and what is padding


class Dropout:
    """Dropout, site after site, by one batch's noise uint8 [sites, ...]; None drops nothing."""

    def __init__(self, noise: torch.Tensor | None, rate: float) -> None:
        self.sites = iter(noise) if noise is not None and rate > 0 else None
        self.threshold, self.scale = round(256 * rate), 1 / (1 - round(256 * rate) / 256)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """`x` after the next site."""
        if self.sites is None:
            return x
        mask: torch.Tensor = (next(self.sites) >= self.threshold).to(x.dtype) * self.scale
        return x * mask


def embed(p: Parameters, subwords: torch.Tensor, first: int = 0) -> torch.Tensor:
    """Scaled embeddings plus position codes [B, L, d] of subwords [B, L], the first of them at position `first`.

    In fp32 up to here: the gradients of one subword's many uses add up in it.
    """
    width = p["embedding"].shape[1]
    codes = p["positions"][first : first + subwords.shape[1]]
    x: torch.Tensor = F.embedding(subwords, p["embedding"]) * width**0.5 + codes
    return x.to(p["output"].dtype)


def norm(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    """Layer normalisation without a bias."""
    return F.layer_norm(x, x.shape[-1:], gain, None, EPSILON)


def project(x: torch.Tensor, weights: torch.Tensor) -> Sequence[torch.Tensor]:
    """`x` [B, L, d] projected by each of `weights` [n, d, d]: n times [B, L, d]."""
    projected: torch.Tensor = F.linear(x, weights.flatten(0, 1))
    return projected.chunk(len(weights), -1)


def attend(q: torch.Tensor, kv: Sequence[torch.Tensor], mask: torch.Tensor, heads: int) -> torch.Tensor:
    """Attention [B, T, d] of queries [B, T, d] to keys and values [B, S, d].

    `mask`, added to the logits, is [B, 1, 1, S] or [T, S].
    """
    q, k, v = (x.reshape(*x.shape[:2], heads, -1).transpose(1, 2) for x in (q, *kv))
    logits = (q * q.shape[-1] ** -0.5) @ k.mT + mask
    mixed: torch.Tensor = logits.softmax(-1) @ v
    return mixed.transpose(1, 2).flatten(2)


def feed(p: Parameters, name: str, x: torch.Tensor) -> torch.Tensor:
    """The feed-forward sublayer."""
    hidden = F.relu(F.linear(norm(x, p[f"{name}_gain"]), p[f"{name}_in"]))
    return F.linear(hidden, p[f"{name}_out"])


def encode(p: Parameters, source: torch.Tensor, hyper: Hyperparameters, drop: Dropout) -> Memory:
    """Of subwords [B, S]: keys and values [B, S, d] for each layer of the decoder, and their mask [B, 1, 1, S]."""
    x = drop(embed(p, source))
    mask = (source == PAD).to(x.dtype)[:, None, None] * MASKED
    for i in range(hyper.encoder_layers):
        q, *kv = project(norm(x, p[f"encoder{i}_self_gain"]), p[f"encoder{i}_self_qkv"])
        x = x + drop(F.linear(attend(q, kv, mask, hyper.heads), p[f"encoder{i}_self_out"]))
        x = x + drop(feed(p, f"encoder{i}_feed", x))
    x = norm(x, p["encoder_gain"])
    return [project(x, p[f"decoder{i}_cross_kv"]) for i in range(hyper.decoder_layers)], mask


def decode(
    p: Parameters,
    inputs: torch.Tensor,
    memory: Memory,
    hyper: Hyperparameters,
    drop: Dropout,
    past: Cache = (),
) -> tuple[torch.Tensor, Cache]:
    """Logits [R, T, V] of the subword after each of `inputs` [R, T]; and each layer's keys and values so far.

    `memory` is of B sentences, whose R / B rows are neighbours; `past` has the keys and values [R, t, d] of what came
    before `inputs`.
    """
    crossed, mask = memory
    first, length = past[0][0].shape[1] if past else 0, inputs.shape[1]
    future = torch.full((length, first + length), MASKED, dtype=mask.dtype, device=mask.device).triu(1 + first)
    x = drop(embed(p, inputs, first))
    present: list[Sequence[torch.Tensor]] = []
    for i in range(hyper.decoder_layers):
        q, *kv = project(norm(x, p[f"decoder{i}_self_gain"]), p[f"decoder{i}_self_qkv"])
        present.append([torch.cat(pair, 1) for pair in zip(past[i], kv, strict=True)] if past else kv)
        x = x + drop(F.linear(attend(q, present[i], future, hyper.heads), p[f"decoder{i}_self_out"]))
        q = F.linear(norm(x, p[f"decoder{i}_cross_gain"]), p[f"decoder{i}_cross_q"])
        attended = attend(q.reshape(len(mask), -1, hyper.d_model), crossed[i], mask, hyper.heads).view(x.shape)
        x = x + drop(F.linear(attended, p[f"decoder{i}_cross_out"]))
        x = x + drop(feed(p, f"decoder{i}_feed", x))
    return F.linear(norm(x, p["decoder_gain"]), p["output"]), present
