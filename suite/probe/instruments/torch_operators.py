"""The operators of a step in PyTorch, the same whether gradients are recorded or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Passes each operator to `run`; takes apart those made of others, which torch.inference_mode leaves whole."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Take an operator apart, or run it."""
        kwargs = kwargs or {}
        with self:
            made = func.decompose(*args, **kwargs)
        return self.run(func, args, kwargs) if made is NotImplemented else made

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator."""
        return func(*args, **kwargs)


def tensors(values: Any) -> list[torch.Tensor]:
    """The tensors among values of any nesting, such as an operator's arguments; a sparse one as those it is made of."""
    return [part for each in tree_leaves(values) if isinstance(each, torch.Tensor) for part in _parts(each)]


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """A tensor itself, or the indices and the values of a sparse one, such as the gradient of a sparse embedding."""
    if tensor.is_sparse:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return [tensor]


def shapes_of(values: Sequence[torch.Tensor]) -> str:
    """The shapes of tensors in a line."""
    return " ".join("x".join(map(str, each.shape)) or "1" for each in values)


def written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The argument tensors that an operator writes; fused optimizers write gradients only to unscale them."""
    said = func._schema.arguments
    given = dict(zip((each.name for each in said), args, strict=False)) | kwargs
    names = {each.name for each in said if each.alias_info and each.alias_info.is_write}
    if given.get("grad_scale") is None:
        names.discard("grads")
    return tensors([value for name, value in given.items() if name in names])


def filled(func: Any) -> set[str]:
    """The names of an operator's arguments that it fills with its results and does not read, such as `out`."""
    return {each.name for each in func._schema.arguments if each.is_out}
