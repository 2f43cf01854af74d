"""What our optimizers in PyTorch share: momenta of all parameters at once, and steps that a scaler may skip."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

import torch


class Momentum(torch.optim.Optimizer):
    """Keeps a `momentum_buffer` of each parameter, of zeros at first, and leaves the step to `move`."""

    _step_supports_amp_scaling = True  # torch.amp.GradScaler then leaves unscaling and skipping to `step`

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        super().__init__(params, defaults)
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)

    @abstractmethod
    def move(
        self,
        group: dict[str, Any],
        parameters: list[torch.Tensor],
        gradients: list[torch.Tensor],
        buffers: list[torch.Tensor],
    ) -> None:
        """One step of a group's parameters and momenta, in place."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take one step along the gradients, unless `torch.amp.GradScaler` found an overflow in them."""
        grad_scale, found_inf = getattr(self, "grad_scale", None), getattr(self, "found_inf", None)
        skip = None if found_inf is None else found_inf.bool()
        for group in self.param_groups:
            parameters = group["params"]
            gradients = [parameter.grad for parameter in parameters]
            buffers = [self.state[parameter]["momentum_buffer"] for parameter in parameters]
            if grad_scale is not None:
                gradients = [*torch._foreach_div(gradients, grad_scale)]
            values = [*parameters, *buffers]
            before = [] if skip is None else [*torch._foreach_mul(values, 1)]
            self.move(group, parameters, gradients, buffers)
            if skip is not None:
                for value, old in zip(values, before, strict=True):
                    torch.where(skip, old, value, out=value)
