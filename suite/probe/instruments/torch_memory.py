"""What a step holds in memory in PyTorch: every tensor that is made while it lasts, until its storage is freed."""

from __future__ import annotations

import time
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.weak import WeakIdKeyDictionary

from suite.harness.implementation import Device
from suite.probe.instruments.torch_counting import apart, unreplayed
from suite.probe.instruments.torch_operators import Operators, tensors
from suite.probe.instruments.torch_watch import Places
from suite.probe.tracing import Memory
from suite.probe.workload import Workload

TEMPORARY, SAVED, GRADIENTS = "temporary", "saved", "gradients"


class Tracker(Operators):  # type: ignore[no-untyped-call]
    """Bytes by kind of the live storages that it was told of or saw being made: `now`, and at their `peak`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kinds: Any = WeakIdKeyDictionary()  # by storage: its kind and bytes, shared with its finalizer
        self.now: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator."""
        result = func(*args, **kwargs)
        given = {id(each.untyped_storage()) for each in tensors((args, kwargs))}
        for tensor in tensors(result):
            storage = tensor.untyped_storage()
            if storage not in self.kinds and id(storage) not in given:
                self.holds(tensor, TEMPORARY)
        if self.now.total() > self.peak.total():
            self.peak = self.now.copy()
        return result

    def holds(self, tensor: torch.Tensor, kind: str) -> None:
        """Count the tensor's storage from now until it is freed."""
        for part in tensors(tensor):
            storage = part.untyped_storage()
            entry = [kind, storage.nbytes()]
            self.kinds[storage] = entry
            self.now[kind] += storage.nbytes()
            weakref.finalize(storage, self._freed, entry)

    def is_now(self, tensor: torch.Tensor, kind: str) -> None:
        """Change the kind of a tensor; do nothing for one that is not tracked."""
        for part in tensors(tensor):
            if entry := self.kinds.get(part.untyped_storage()):
                self.now[entry[0]] -= entry[1]
                self.now[kind] += entry[1]
                entry[0] = kind
        if self.now.total() == self.peak.total():
            self.peak = self.now.copy()

    def saved(self, tensor: torch.Tensor) -> torch.Tensor:
        """Count a tensor as kept for the backward pass."""
        self.is_now(tensor, SAVED)
        return tensor.detach()

    def _freed(self, entry: list[Any]) -> None:
        self.now[entry[0]] -= entry[1]


class Tracked:
    """See `Instruments.memory`."""

    def __init__(self, build: Callable[[], Workload], device: Device) -> None:
        places, optimizers = Places(), weakref.WeakSet[torch.optim.Optimizer]()
        with apart(), places.followed(), ExitStack() as stack:
            stack.callback(register_optimizer_step_post_hook(lambda it, *_: optimizers.add(it)).remove)
            self.workload = build()
            self.workload.ready(1)
            self.workload.run(1)
        places.called()
        self.modules, self.optimizers = list(places.names), list(optimizers)

    def step(self) -> Memory:
        """Track a step and return what it holds."""
        weights = {p for module in self.modules for p in module.parameters(recurse=False)}
        parameters = [each for each in weights if each.requires_grad]
        frozen = [each for each in weights if not each.requires_grad]
        buffers = [b for module in self.modules for b in module.buffers(recurse=False)]
        state = [each for it in self.optimizers for each in tensors(list(it.state.values()))]
        self.workload.ready(1)
        tracker = Tracker()
        for each in parameters:
            if each.grad is not None:  # of the step before
                tracker.holds(each.grad, GRADIENTS)
        with apart(), unreplayed(), ExitStack() as stack:
            for each in parameters:
                register: Any = each.register_post_accumulate_grad_hook
                stack.callback(register(lambda it: tracker.is_now(it.grad, GRADIENTS)).remove)
            stack.enter_context(saved_tensors_hooks(tracker.saved, lambda tensor: tensor))
            stack.enter_context(tracker)
            start = time.perf_counter()
            self.workload.run(1)
            seconds = time.perf_counter() - start
        return Memory(
            seconds=seconds,
            parameters=_bytes(parameters),
            buffers=_bytes(frozen + buffers),
            optimizer=_bytes(state),
            gradients=tracker.peak[GRADIENTS],
            saved=tracker.peak[SAVED],
            temporary=tracker.peak[TEMPORARY],
        )


memory = Tracked


def _bytes(held: Sequence[torch.Tensor]) -> int:
    """Bytes of the tensors' storages, each counted once."""
    storages = {id(storage): storage.nbytes() for each in tensors(held) if (storage := each.untyped_storage())}
    return sum(storages.values())
