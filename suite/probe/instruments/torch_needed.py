"""The memory that a build and its first training step take in PyTorch on an accelerator that is not there.

On the `meta` device tensors have shapes but no values. What only an accelerator does is emulated: autocast, and
attention in one operator. Each operator runs by itself, as written; a compiler that fuses them holds less.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib import import_module
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.nn import functional as F
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.overrides import TorchFunctionMode

from suite.probe.instruments.torch_memory import Tracker

HOST = torch.device("cpu")
ALIKE = 3  # backward passes without a new peak, after which parts of a step only repeat
# Functions by name: those of torch.autocast for GPUs, and torch.nn.functional's that are made of these
LOWERED = {"linear", "matmul", "__matmul__", "mm", "bmm", "addmm", "baddbmm", "einsum", "scaled_dot_product_attention"}
LOWERED |= {f"conv{dimensions}d" for dimensions in (1, 2, 3)} | {"gru_cell", "lstm_cell"}
IN_FP32 = {"softmax", "log_softmax", "layer_norm", "cross_entropy", "nll_loss", "cumsum", "norm", "pow"}


class Done(Exception):
    """Raised when the step that tells the peak has been taken."""


class Autocast(TorchFunctionMode):
    """A GPU's torch.autocast, which the meta device lacks: runs functions in `dtype` or in float32."""

    def __init__(self, device_type: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Call a function of PyTorch."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name not in LOWERED | IN_FP32:
            return func(*args, **kwargs)
        dtype = self.dtype if name in LOWERED else torch.float32

        def cast(value: Any) -> Any:
            return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

        return func(*map(cast, args), **{key: cast(value) for key, value in kwargs.items()})


class Attention(TorchFunctionMode):
    """F.scaled_dot_product_attention as the operator of GPUs that never holds all weights at once."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Call a function of PyTorch."""
        if func is not F.scaled_dot_product_attention:
            return func(*args, **(kwargs or {}))
        return _attended(*args, **(kwargs or {}))


def _attended(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False,
) -> Any:  # fmt: skip
    return torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, True, dropout_p, is_causal)[0]


def _fused(*_: object, **__: object) -> None:
    """Stand in for Adam's fused step, which makes nothing; the meta device would take several operators."""


class Blank(np.ndarray):
    """Zeros that take no memory, in place of what would be read from the device."""

    def copy(self, order: Any = "C") -> Blank:
        """Return the array itself."""
        return self


class Shapes(Tracker):  # type: ignore[no-untyped-call]
    """Tracks what is made on the meta device; what would be read from it is zeros."""

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator."""
        if args and isinstance(args[0], torch.Tensor) and args[0].is_meta:
            if func is torch.ops.aten._local_scalar_dense.default:
                return torch.zeros((), dtype=args[0].dtype).item()
            if kwargs.get("device") == HOST:
                return torch.zeros((), dtype=kwargs.get("dtype") or args[0].dtype).expand(args[0].shape)
        return super().run(func, args, kwargs)

    def holds(self, tensor: torch.Tensor, kind: str) -> None:
        """See `Tracker`; the host's memory does not count."""
        if tensor.is_meta:
            super().holds(tensor, kind)


def needed(build: Callable[[], object]) -> int:
    """The most bytes that `build` of an imagined device holds until its first training step has been taken.

    Raises what a step that needs values raises, and ValueError if there is no training step.
    """
    shapes = Shapes()
    backward, numpy = torch.Tensor.backward, torch.Tensor.numpy
    peaks, stepped = list[int](), list[object]()

    def followed(*args: Any, **keywords: Any) -> None:
        if stepped or (len(peaks) > ALIKE and peaks[-1] == peaks[-1 - ALIKE]):
            raise Done
        backward(*args, **keywords)  # type: ignore[no-untyped-call]
        peaks.append(shapes.peak.total())

    def zeros(tensor: torch.Tensor, **_: Any) -> Any:
        return numpy(tensor).view(Blank)

    def stepping(optimizer: object, *_: object) -> None:
        if peaks:
            stepped.append(optimizer)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(import_module("torch.optim.adam"), "adam", _fused))
        stack.callback(register_optimizer_step_post_hook(stepping).remove)
        stack.enter_context(mock.patch.object(torch, "autocast", Autocast))
        stack.enter_context(mock.patch.object(torch.Tensor, "backward", followed))
        stack.enter_context(mock.patch.object(torch.Tensor, "numpy", zeros))
        stack.enter_context(Attention())
        stack.enter_context(shapes)
        with suppress(Done):
            build()
    if not peaks:
        raise ValueError("its build takes no training step")
    return shapes.peak.total()
