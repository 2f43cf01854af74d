"""The network as a function of its arrays, which have PyTorch's names and layouts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reference_impls.image_classification.shared import EPSILON, WHITEN_EPSILON, Hyperparameters

Arrays = dict[str, jax.Array]
STATISTICS = ("running_mean", "running_var")


def logits(
    state: Arrays, images: jax.Array, dtype: Any, hyper: Hyperparameters, training: bool
) -> tuple[jax.Array, Arrays]:
    """Logits float32 [B, classes] of images [B, C, S, S], and the statistics after them."""
    statistics: Arrays = {}
    x = jax.nn.gelu(
        convolved(images, state["whiten.weight"], dtype, 0) + state["whiten.bias"].astype(dtype)[:, None, None],
        approximate=False,
    )
    for i in range(len(hyper.widths)):
        for place in (1, 2):
            name = f"blocks.{i}.norm{place}"
            x = convolved(x, state[f"blocks.{i}.conv{place}.weight"], dtype, 1)
            if place == 1:
                x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
            x, told = batch_norm(x, state, name, hyper.norm_momentum, training)
            statistics |= told
            x = jax.nn.gelu(x, approximate=False)
    scores = x.max((2, 3)) @ state["head.weight"].astype(dtype).T
    return scores.astype(jnp.float32) / x.shape[1], statistics


def convolved(x: jax.Array, weight: jax.Array, dtype: Any, padding: int) -> jax.Array:
    """The convolution of x [B, I, S, S] with a weight [O, I, h, w]."""
    return jax.lax.conv(x.astype(dtype), weight.astype(dtype), (1, 1), "SAME" if padding else "VALID")


def batch_norm(x: jax.Array, state: Arrays, name: str, momentum: float, training: bool) -> tuple[jax.Array, Arrays]:
    """Batch normalisation with a bias and no scale, in float32, and its statistics afterwards."""
    wide, told = x.astype(jnp.float32), {}
    mean, variance = (state[f"{name}.{each}"] for each in STATISTICS)
    if training:
        old, count = (mean, variance), wide.size // wide.shape[1]
        mean, variance = wide.mean((0, 2, 3)), wide.var((0, 2, 3))
        new = (mean, variance * count / (count - 1))
        told = {
            f"{name}.{each}": momentum * before + (1 - momentum) * after
            for each, before, after in zip(STATISTICS, old, new, strict=True)
        }
    scale = jax.lax.rsqrt(variance + EPSILON)[:, None, None]
    return ((wide - mean[:, None, None]) * scale + state[f"{name}.bias"][:, None, None]).astype(x.dtype), told


def whitening(images: np.ndarray) -> np.ndarray:
    """The whitening layer's weights [8 C, C, 2, 2] from training images float32 [N, C, S, S], as the reference's."""
    count, channels, side, _ = images.shape
    corners = [images[:, :, y : side - 1 + y, x : side - 1 + x] for y in (0, 1) for x in (0, 1)]
    patches = np.stack(corners, 2).reshape(count, 4 * channels, -1)
    products = (patches @ patches.transpose(0, 2, 1)).sum(0, dtype=np.float64)
    values, vectors = np.linalg.eigh(products / (count * patches.shape[2]))
    filters = (vectors / np.sqrt(values + WHITEN_EPSILON)).T
    filters *= np.sign(filters @ np.sqrt(np.arange(1, 4 * channels + 1)))[:, None]
    return np.concatenate([filters, -filters]).astype(np.float32).reshape(-1, channels, 2, 2)
