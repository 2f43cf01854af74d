"""One step of each optimizer on one parameter: the new parameter and its new momentum."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from reference_impls.recipe import NEWTON_SCHULZ


def sgd(
    parameter: jax.Array, gradient: jax.Array, moment: jax.Array, rate: jax.Array, momentum: float, decay: float
) -> tuple[jax.Array, jax.Array]:
    """Nesterov momentum, with the decay added to the gradient, as torch.optim.SGD."""
    gradient = gradient + decay * parameter
    moment = momentum * moment + gradient
    return parameter - rate * (gradient + momentum * moment), moment


def muon(
    parameter: jax.Array,
    gradient: jax.Array,
    moment: jax.Array,
    rate: jax.Array,
    momentum: float,
    steps: int,
    dtype: Any,
) -> tuple[jax.Array, jax.Array]:
    """Muon (Jordan et al. 2024) of a convolution [out, in, h, w], which is scaled to the norm sqrt(out) before."""
    moment = moment + (1 - momentum) * (gradient - moment)
    direction = gradient + momentum * (moment - gradient)
    parameter = parameter * (len(parameter) ** 0.5 / jnp.linalg.norm(parameter))
    return parameter - rate * orthogonalised(direction.reshape(len(direction), -1), steps, dtype).reshape(
        parameter.shape
    ), moment


def orthogonalised(matrix: jax.Array, steps: int, dtype: Any) -> jax.Array:
    """A semi-orthogonal matrix, roughly, times sqrt(max(1, out / in))."""
    a, b, c = NEWTON_SCHULZ
    rows, columns = matrix.shape
    x = matrix.T if rows > columns else matrix
    x = (x / (jnp.linalg.norm(x) + 1e-7)).astype(dtype)

    def nearer(_: int, x: jax.Array) -> jax.Array:
        gram = x @ x.T
        return a * x + (b * gram + c * gram @ gram) @ x

    x = jax.lax.fori_loop(0, steps, nearer, x).astype(jnp.float32)
    return x.T * (rows / columns) ** 0.5 if rows > columns else x
