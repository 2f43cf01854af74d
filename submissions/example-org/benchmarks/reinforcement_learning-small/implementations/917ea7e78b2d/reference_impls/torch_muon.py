"""Muon in PyTorch, over all matrices at once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import groupby
from typing import Any

import torch

from reference_impls.recipe import NEWTON_SCHULZ
from reference_impls.torch_momentum import Momentum
from reference_impls.torch_replayed import Function, Replayed, replays


class Muon(Momentum):
    """Nesterov momentum made roughly semi-orthogonal by Newton-Schulz iteration (Jordan et al. 2024).

    A parameter is a matrix [out, in], a stack of them [n, out, in], or a convolution [out, in, h, w], which counts as
    [out, in * h * w]. A step moves it by `lr` * sqrt(max(1, out / in)) times the result, after decay by `lr` *
    `weight_decay`; with `unit_norm` it is first scaled to the norm sqrt(out), as in airbench94_muon.

    Not torch.optim.Muon: that takes matrices only, iterates them one after the other, and always in bf16, which is slow
    on most CPUs and leaves nothing to compare between frameworks. Here the iteration is in `dtype`, and matrices of
    like shape, or like when transposed, are iterated together.
    """

    def __init__(
        self,
        params: Iterable[torch.nn.Parameter],
        lr: float,
        momentum: float,
        ns_steps: int,
        dtype: torch.dtype,
        weight_decay: float = 0.0,
        unit_norm: bool = False,
    ) -> None:
        self.unit_norm = unit_norm
        self.orthogonalised: Function = partial(orthogonalised, steps=ns_steps, dtype=dtype)
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    def move(
        self,
        group: dict[str, Any],
        parameters: list[torch.Tensor],
        gradients: list[torch.Tensor],
        buffers: list[torch.Tensor],
    ) -> None:
        """See `Momentum.move`."""
        torch._foreach_lerp_(buffers, gradients, 1 - group["momentum"])
        directions = [*torch._foreach_lerp(gradients, buffers, group["momentum"])]
        if self.unit_norm:
            norms = torch._foreach_norm(parameters)
            lengths = [len(parameter) ** 0.5 for parameter in parameters]
            torch._foreach_mul_(parameters, [length / norm for length, norm in zip(lengths, norms, strict=True)])
        if group["weight_decay"]:
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        if replays(directions[0].device) and not isinstance(self.orthogonalised, Replayed):
            self.orthogonalised = Replayed(self.orthogonalised, directions)  # in `prepare`, off the clock
        torch._foreach_sub_(parameters, self.orthogonalised(directions), alpha=group["lr"])


def orthogonalised(matrices: list[torch.Tensor], steps: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """`matrices` made roughly semi-orthogonal, times sqrt(max(1, out / in)); shapes stay the same."""
    a, b, c = NEWTON_SCHULZ
    flat = [m[None] if m.ndim == 2 else m.flatten(1)[None] if m.ndim == 4 else m for m in matrices]
    wide = [m.mT if m.shape[1] > m.shape[2] else m for m in flat]
    result: dict[int, torch.Tensor] = {}
    by_shape = sorted(range(len(wide)), key=lambda i: tuple(wide[i].shape[1:]))
    for _, group in groupby(by_shape, key=lambda i: tuple(wide[i].shape[1:])):
        members = list(group)
        x = torch.cat([wide[i] for i in members])
        x = (x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)).to(dtype)
        for _ in range(steps):
            gram = x @ x.mT
            x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
        parts = torch.split(x.float(), [len(wide[i]) for i in members])
        for i, part in zip(members, parts, strict=True):
            rows, columns = flat[i].shape[1:]
            part = part.mT * (rows / columns) ** 0.5 if rows > columns else part
            result[i] = part.reshape(matrices[i].shape)
    return [result[i] for i in range(len(matrices))]
