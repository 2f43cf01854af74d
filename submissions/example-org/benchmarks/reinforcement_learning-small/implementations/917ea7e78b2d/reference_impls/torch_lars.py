"""LARS in PyTorch, over all parameters at once; its twin is in `tensorflow_optimizers.py`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from reference_impls.torch_momentum import Momentum


class LARS(Momentum):
    """LARS as in MLPerf: momentum with step sizes relative to the layers' norms (You et al. 2017, arXiv:1708.03888).

    A parameter w of more than one axis, with gradient g, moves by `lr` * `trust` * |w| / (|g| + decay * |w|) along g +
    decay * w. The others, of batch normalisation and biases, move by `lr` along their gradients, without decay. The
    momentum sums steps, not gradients, so it includes the learning rate.
    """

    def __init__(
        self, params: Iterable[torch.nn.Parameter], lr: float, momentum: float, weight_decay: float, trust: float
    ) -> None:
        params = list(params)
        groups = [
            {"params": [p for p in params if (p.ndim > 1) == layers], "layers": layers} for layers in (True, False)
        ]
        super().__init__(groups, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust})

    def move(
        self,
        group: dict[str, Any],
        parameters: list[torch.Tensor],
        gradients: list[torch.Tensor],
        buffers: list[torch.Tensor],
    ) -> None:
        """See `Momentum.move`."""
        if group["layers"]:
            decay = group["weight_decay"]
            weights, slopes = (torch.stack(torch._foreach_norm(each)) for each in (parameters, gradients))
            trusts = group["trust"] * weights / (slopes + decay * weights)
            trusts = torch.where((weights > 0) & (slopes > 0), trusts, 1.0)
            gradients = [*torch._foreach_add(gradients, parameters, alpha=decay)]
            torch._foreach_mul_(gradients, [*trusts.unbind()])
        torch._foreach_mul_(buffers, group["momentum"])
        torch._foreach_add_(buffers, gradients, alpha=group["lr"])
        torch._foreach_sub_(parameters, buffers)
