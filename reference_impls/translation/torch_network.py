"""The Transformer in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import nn

from reference_impls.torch_layers import Dropout, LayerNorm
from reference_impls.translation.shared import MASKED, POSITIONS, Network, positions
from tasks.translation.subwords import PAD

KeysValues = Sequence[torch.Tensor]  # two of [B, heads, L, d / heads]
Memory = tuple[Sequence[KeysValues], torch.Tensor]  # of each decoder layer, and what is padding: [B, 1, 1, S]


class Past:
    """Keys and values of what came before, `width` positions at most, to which those at `position` [1] are added."""

    def __init__(self, cache: KeysValues, position: torch.Tensor, width: int) -> None:
        self.cache, self.position, self.width = cache, position, width

    def add(self, new: KeysValues) -> KeysValues:
        """Add `new`; return all keys and values so far."""
        for whole, one in zip(self.cache, new, strict=True):
            whole.index_copy_(2, self.position, one.to(whole.dtype))
        return [whole[:, :, : self.width] for whole in self.cache]


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor, dropout: nn.Dropout | None = None
) -> torch.Tensor:
    """Attention [B, heads, T, d / heads]; `mask` is added to the logits [B, heads, T, S], `dropout` is of its weights.

    On a CPU not `F.scaled_dot_product_attention`: forward and backward of 128 sentences of 18 subwords in bf16 take it
    48 ms, and this 11 ms (one core of an AMD EPYC with AVX-512).
    """
    if q.device.type != "cpu":
        return F.scaled_dot_product_attention(q, k, v, mask, dropout.p if dropout and dropout.training else 0.0)
    weights = ((q * q.shape[-1] ** -0.5) @ k.mT + mask).softmax(-1)
    found: torch.Tensor = (dropout(weights) if dropout else weights) @ v
    return found


class Attention(nn.Module):
    """Multi-head attention without biases."""

    def __init__(self, hyper: Network) -> None:
        super().__init__()
        self.heads = hyper.heads
        self.q = nn.Linear(hyper.d_model, hyper.d_model, bias=False)
        self.k = nn.Linear(hyper.d_model, hyper.d_model, bias=False)
        self.v = nn.Linear(hyper.d_model, hyper.d_model, bias=False)
        self.out = nn.Linear(hyper.d_model, hyper.d_model, bias=False)
        self.dropout = Dropout(hyper.dropout) if hyper.published else None

    def split(self, x: torch.Tensor) -> torch.Tensor:
        """[B, heads, L, d / heads] of [B, L, d]."""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def keys_values(self, x: torch.Tensor) -> KeysValues:
        """The keys and values of `x`, which is attended to."""
        return self.split(self.k(x)), self.split(self.v(x))

    def forward(self, x: torch.Tensor, keys_values: KeysValues, mask: torch.Tensor) -> torch.Tensor:
        """The attention of `x` [B, T, d] to these; `mask` is that of `attend`."""
        k, v = keys_values
        attended = attend(self.split(self.q(x)), k, v, mask, self.dropout)
        found: torch.Tensor = self.out(attended.transpose(1, 2).flatten(2))
        return found


class Layer(nn.Module):
    """What an encoder's and a decoder's layer share: attention and a feed-forward network between norms."""

    self_attn: Attention
    cross_attn: Attention
    norm1: LayerNorm
    norm2: LayerNorm
    norm3: LayerNorm

    def __init__(self, hyper: Network, *attentions: str) -> None:
        super().__init__()
        for attention in attentions:
            setattr(self, attention, Attention(hyper))
        self.linear1 = nn.Linear(hyper.d_model, hyper.d_ff, bias=hyper.published)
        self.linear2 = nn.Linear(hyper.d_ff, hyper.d_model, bias=hyper.published)
        for i in range(len(attentions) + 1):
            setattr(self, f"norm{i + 1}", LayerNorm(hyper.d_model, bias=hyper.published))
        self.dropout = Dropout(hyper.dropout)
        self.inner = Dropout(hyper.dropout) if hyper.published else nn.Identity()

    def feed(self, x: torch.Tensor, norm: nn.Module) -> torch.Tensor:
        """The output of the feed-forward sublayer, which is the last."""
        fed: torch.Tensor = x + self.dropout(self.linear2(self.inner(F.relu(self.linear1(norm(x))))))
        return fed


class EncoderLayer(Layer):
    """Self-attention and a feed-forward network; each normalises its input and is added to it."""

    def __init__(self, hyper: Network) -> None:
        super().__init__(hyper, "self_attn")

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The output for `x` [B, S, d]."""
        y = self.norm1(x)
        x = x + self.dropout(self.self_attn(y, self.self_attn.keys_values(y), mask))
        return self.feed(x, self.norm2)


class DecoderLayer(Layer):
    """An encoder's layer with attention to the source in between."""

    def __init__(self, hyper: Network) -> None:
        super().__init__(hyper, "self_attn", "cross_attn")

    def forward(
        self,
        x: torch.Tensor,
        future: torch.Tensor,
        source: KeysValues,
        padding: torch.Tensor,
        past: Past | None = None,
    ) -> torch.Tensor:
        """The output for `x` [R, T, d]; `source` is of B sentences of R / B adjacent rows each."""
        y = self.norm1(x)
        new = self.self_attn.keys_values(y)
        x = x + self.dropout(self.self_attn(y, new if past is None else past.add(new), future))
        y = self.norm2(x).view(len(padding), -1, x.shape[2])
        x = x + self.dropout(self.cross_attn(y, source, padding).view(x.shape))
        return self.feed(x, self.norm3)


class Transformer(nn.Module):
    """Encoder, decoder, and embeddings that are the output layer too; between layers values are in `dtype`."""

    positions: torch.Tensor

    def __init__(self, hyper: Network, subwords: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.embedding = nn.Embedding(subwords, hyper.d_model)
        self.register_buffer("positions", torch.from_numpy(positions(POSITIONS, hyper.d_model)), persistent=False)
        self.encoder = nn.ModuleList(EncoderLayer(hyper) for _ in range(hyper.encoder_layers))
        self.encoder_norm = LayerNorm(hyper.d_model, bias=hyper.published)
        self.decoder = nn.ModuleList(DecoderLayer(hyper) for _ in range(hyper.decoder_layers))
        self.decoder_norm = LayerNorm(hyper.d_model, bias=hyper.published)
        self.dropout = Dropout(hyper.dropout)

    def embed(self, subwords: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """Scaled embeddings of subwords [B, L] plus codes of their positions [L, d].

        It is computed in fp32, in which the gradients of one subword's many uses add up.
        """
        x: torch.Tensor = self.embedding(subwords) * codes.shape[1] ** 0.5 + codes
        embedded: torch.Tensor = self.dropout(x.to(self.dtype))
        return embedded

    def encode(self, source: torch.Tensor) -> Memory:
        """What the decoder sees of subwords [B, S]."""
        x = self.embed(source, self.positions[: source.shape[1]])
        padding = (source == PAD).to(x.dtype)[:, None, None] * MASKED
        for layer in self.encoder:
            x = layer(x, padding)
        x = self.encoder_norm(x)
        return [cast(DecoderLayer, layer).cross_attn.keys_values(x) for layer in self.decoder], padding

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """Logits [R, T, V] of the following subwords, from the output of the decoder's last layer."""
        return F.linear(self.decoder_norm(x), self.embedding.weight)

    def forward(self, source: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        """Logits [B, T, V] of the subword after each of `inputs` [B, T], of the translations of `source` [B, S]."""
        memory, padding = self.encode(source)
        length = inputs.shape[1]
        x = self.embed(inputs, self.positions[:length])
        future = torch.full((length, length), MASKED, dtype=x.dtype, device=x.device).triu(1)
        for layer, keys_values in zip(self.decoder, memory, strict=True):
            x = layer(x, future, keys_values, padding)
        return self.logits(x)

    def following(
        self, subwords: torch.Tensor, memory: Memory, cache: Sequence[KeysValues], position: torch.Tensor, width: int
    ) -> torch.Tensor:
        """Logits float32 [R, V] after subwords [R] at `position` [1], which are added to the `cache`.

        At most `width` positions of the cache are in use.
        """
        source, padding = memory
        x = self.embed(subwords[:, None], self.positions.index_select(0, position))
        later = torch.arange(width, device=x.device) > position
        future = later.to(x.dtype)[None] * MASKED
        for layer, past, keys_values in zip(self.decoder, cache, source, strict=True):
            x = layer(x, future, keys_values, padding, Past(past, position, width))
        return self.logits(x)[:, 0].float()
