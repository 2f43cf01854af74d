"""LARS in PyTorch, over all parameters at once; its twin is in `tensorflow_optimizers.py`."""

from __future__ import annotations

from collections.abc import Iterable

import torch


class LARS(torch.optim.Optimizer):
    """Momentum whose steps are as long as the layers (You et al. 2017, arXiv:1708.03888), as MLPerf has it.

    A parameter of more than one axis goes `lr` * `trust` * |w| / (|g| + decay * |w|) along its gradient g plus decay *
    w; others, of batch normalisation and biases, go `lr` along theirs, without decay. The momentum gathers steps, not
    gradients: the learning rate is part of it.
    """

    _step_supports_amp_scaling = True  # torch.amp.GradScaler then leaves it to `step` to divide and to skip

    def __init__(
        self, params: Iterable[torch.nn.Parameter], lr: float, momentum: float, weight_decay: float, trust: float
    ) -> None:
        params = list(params)
        groups = [
            {"params": [p for p in params if (p.ndim > 1) == layers], "layers": layers} for layers in (True, False)
        ]
        super().__init__(groups, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust})
        for parameter in params:
            self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step along the gradients; none where `torch.amp.GradScaler` found one that overflowed."""
        grad_scale, found_inf = getattr(self, "grad_scale", None), getattr(self, "found_inf", None)
        for group in self.param_groups:
            parameters = group["params"]
            gradients = [parameter.grad for parameter in parameters]
            buffers = [self.state[parameter]["momentum_buffer"] for parameter in parameters]
            if grad_scale is not None:
                gradients = [gradient / grad_scale for gradient in gradients]
            before = [] if found_inf is None else [value.clone() for value in (*parameters, *buffers)]
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
            if found_inf is not None:
                for value, old in zip((*parameters, *buffers), before, strict=True):
                    value.copy_(torch.where(found_inf.bool(), old, value))
