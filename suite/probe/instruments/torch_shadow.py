"""Steps in PyTorch with a shadow in float64: each of the dispatcher's operators runs again on shadows of its inputs.

A shadow belongs to a storage, so that views share it as they share the storage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakIdKeyDictionary

from suite.harness.implementation import Device
from suite.probe.instruments.torch_counting import apart, unreplayed
from suite.probe.instruments.torch_judging import PROFILER, doubled
from suite.probe.instruments.torch_operators import Operators, written
from suite.probe.instruments.torch_watch import Places
from suite.probe.shadow import STEPS, Distance, distances
from suite.probe.workload import Workload


class Shadow(Operators):  # type: ignore[no-untyped-call]
    """Runs each operator, and again on shadows; `refused` are those that failed there and kept the step's values."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.storages: Any = WeakIdKeyDictionary()  # the shadow of each, [elements]
        self.refused: set[str] = set()

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator."""
        writes = func._schema.is_mutable
        shadows = tree_map(lambda each: self._given(each, writes), (args, kwargs))
        result = func(*args, **kwargs)
        if func.is_view or func.namespace == PROFILER:
            return result
        drawn = torch.Tag.nondeterministic_seeded in func.tags
        try:
            self._keep(result, result if drawn else func(*shadows[0], **shadows[1]))
        except RuntimeError:
            self.refused.add(str(func.overloadpacket))
            drawn = True
        for each in written(func, args, kwargs) if drawn else ():
            self.of(each).copy_(each)
        return result

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor's shadow, which begins as its own values."""
        storage = tensor.untyped_storage()
        if storage not in self.storages:
            whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage)
            self.storages[storage] = doubled(whole) if _shadowed(tensor) else whole.clone()
        shadow: torch.Tensor = self.storages[storage]
        if _shadowed(shadow) or not _shadowed(tensor):
            shadow = shadow.view(doubled(tensor.dtype))
        shadow = shadow.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        shadow = shadow.conj() if tensor.is_conj() else shadow
        return shadow._neg_view() if tensor.is_neg() else shadow

    def _given(self, value: Any, writes: bool) -> Any:
        """An operator's argument for its shadow; whole numbers that nothing has made or will write stay as they are."""
        if isinstance(value, torch.dtype):
            return doubled(value)
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
            return value
        if writes or _shadowed(value) or value.untyped_storage() in self.storages:
            return self.of(value)
        return value

    def _keep(self, result: Any, made: Any) -> None:
        """Keep the shadows of what an operator newly made."""
        for each, shadow in zip(tree_leaves(result), tree_leaves(made), strict=True):
            both = isinstance(each, torch.Tensor) and isinstance(shadow, torch.Tensor)
            if both and each.untyped_storage() not in self.storages:
                self.of(each).copy_(shadow)


def _shadowed(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def shadowed(build: Callable[[], Workload], device: Device) -> Distance:
    """See `Instruments.shadowed`."""
    places, shadow = Places(), Shadow()
    with apart(), places.followed():
        workload = build()
        workload.ready(1)
        workload.run(1)
    workload.ready(max(STEPS))
    own = dict.fromkeys(each for module in places.names for each in module.parameters(recurse=False))
    parameters = {str(number): each for number, each in enumerate(own) if each.requires_grad}

    def step() -> None:
        with shadow:
            workload.run(1)

    with apart(), unreplayed():
        after = distances(
            step,
            found=lambda: {name: _values(each) for name, each in parameters.items()},
            exact=lambda: {name: _values(shadow.of(each)) for name, each in parameters.items()},
        )
    return Distance(after, tuple(sorted(shadow.refused)))


def _values(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().double().cpu().numpy().copy()
