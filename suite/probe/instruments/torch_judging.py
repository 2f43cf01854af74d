"""Judge a step's operators in PyTorch: run each again on copies of its inputs, in float64, repeated, on other threads.

They run in a thread of their own, where neither the dispatch mode nor the autocast of the step is active.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeGuard

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map

from suite.harness.implementation import Device
from suite.probe.instruments.torch_counting import apart, unreplayed
from suite.probe.instruments.torch_operators import Operators, shapes_of, tensors
from suite.probe.judging import (
    RANDOM,
    REFUSED,
    REPEATS,
    SEED,
    UNDEFINED,
    Errors,
    Judged,
    Output,
    errors,
    unjudged,
    unlike,
)
from suite.probe.workload import Workload

Made = Sequence[torch.Tensor | None]  # in the operator's order, None for what was not asked for
SCRATCH = {"aten._ctc_loss": 1}  # operators that leave their outputs uninitialised, from this one on
ATEN = "aten"  # the namespace of PyTorch's own operators
PROFILER = "profiler"  # the namespace of its regions, which are operators too
UNSET = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted", "resize_"}


class Call:
    """A call of an operator that can be made again; `differentiated` where a gradient goes through it.

    Operators outside `aten` always run without gradients, so theirs are taken wherever an input requires one, except in
    a backward pass: a GPU has one thread for all of them, which waits for the judgement.
    """

    def __init__(self, function: Any, given: Any, differentiated: bool) -> None:
        self.function, self.given = function, given
        self.writes = function._schema.is_mutable
        self.differentiated = differentiated and not self.writes

    def again(self, exact: bool = False) -> tuple[Made, Made]:
        """Repeat the call; return its outputs, in float64 if `exact`, and the gradients by its inputs."""
        args, kwargs = tree_map(lambda each: _copied(each, exact), self.given)
        with torch.set_grad_enabled(self.differentiated):
            result = self.function(*args, **kwargs)
        written = [
            each
            for each, said in zip(args, self.function._schema.arguments, strict=False)
            if said.alias_info and said.alias_info.is_write
        ]
        if (count := SCRATCH.get(str(self.function.overloadpacket))) is not None:
            result = result[:count]
        distinct = {id(each): each for each in tensors((result, written))}
        made = [each.detach() if isinstance(each, torch.Tensor) else each for each in tree_leaves((result, written))]
        return made, self._gradients(list(distinct.values()), tensors((args, kwargs)))

    def _gradients(self, made: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> Made:
        ends, leaves = [each for each in made if each.requires_grad], [each for each in given if each.requires_grad]
        if not ends or not leaves:
            return []
        random = torch.Generator().manual_seed(SEED)
        against = [torch.randn(each.shape, generator=random).bfloat16().to(each) for each in ends]
        try:
            return torch.autograd.grad(ends, leaves, against, allow_unused=True)
        except RuntimeError:
            if self.function.namespace == ATEN:
                raise
            self.differentiated = False  # it has no formula
            return []


class Judge(Operators):  # type: ignore[no-untyped-call]
    """Judges the first call of each operator with its shapes and types, and leaves all calls unchanged."""

    def __init__(self, worker: ThreadPoolExecutor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.worker = worker
        self.found: dict[tuple[str, ...], Judged] = {}

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator."""
        given = tensors((args, kwargs))
        name, shapes = str(func.overloadpacket), shapes_of(given)
        key = (name, shapes, *(str(each.dtype) for each in given))
        if func.namespace != PROFILER and not func.is_view and key not in self.found:
            recorded = torch.is_grad_enabled() or func.namespace != ATEN
            call = Call(func, (args, kwargs), recorded and torch._C._current_autograd_node() is None)
            self.found[key] = self.worker.submit(_judged, name, shapes, call).result()
        return func(*args, **kwargs)


def judged(build: Callable[[], Workload], device: Device) -> list[Judged]:
    """See `Instruments.judged`."""
    with apart(), ThreadPoolExecutor(1) as worker:
        workload = build()
        workload.ready(1)
        with unreplayed(), (judge := Judge(worker)):
            workload.run(1)
    return list(judge.found.values())


def _judged(name: str, shapes: str, call: Call) -> Judged:
    if torch.Tag.nondeterministic_seeded in call.function.tags:
        return Judged(name, shapes, RANDOM)
    if name.removeprefix("aten.") in UNSET:
        return Judged(name, shapes, UNDEFINED)
    made, gradients = call.again()
    kinds = {_kind(each) for each in tensors(made) if _judgeable(each) or (each.is_complex() and each.numel() > 0)}
    if why := unjudged(kinds):
        return Judged(name, shapes, why)
    try:
        exact, exact_gradients = call.again(exact=True)
    except RuntimeError:
        return Judged(name, shapes, REFUSED)
    repeats = all(_same(made, call.again()[0]) for _ in range(REPEATS - 1))
    threads, elsewhere = torch.get_num_threads(), None
    if all(each.is_cpu for each in tensors(made)):
        torch.set_num_threads(unlike(threads))
        elsewhere = _same(made, call.again()[0])
        torch.set_num_threads(threads)
    forward, gradient = _errors(made, exact), _errors(gradients, exact_gradients) if call.differentiated else None
    return Judged(name, shapes, None, " ".join(sorted(kinds)), forward, gradient, repeats, elsewhere)


def _errors(made: Made, exact: Made) -> Errors | None:
    pairs = zip(made, exact, strict=True)
    return errors([Output(_plain(a), _plain(b), _kind(a)) for a, b in pairs if _judgeable(a) and b is not None])


def _judgeable(tensor: Any) -> TypeGuard[torch.Tensor]:
    return isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and tensor.numel() > 0


def _kind(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _plain(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().to_dense().double().cpu().numpy().ravel()


def _same(some: Made, others: Made) -> bool:
    pairs = [(a.to_dense(), b.to_dense()) for a, b in zip(some, others, strict=True) if _judgeable(a) and _judgeable(b)]
    return all(bool(((a == b) | (a.isnan() & b.isnan())).all()) for a, b in pairs)


def doubled(value: Any) -> Any:
    """A tensor in float64, a complex one in complex128; a type as the one of these that replaces it; else `value`."""
    given = value if isinstance(value, torch.dtype) else value.dtype
    wide = torch.float64 if given.is_floating_point else torch.complex128 if given.is_complex else given
    return wide if isinstance(value, torch.dtype) else value.to(wide)


def _copied(value: Any, exact: bool) -> Any:
    if isinstance(value, torch.dtype) and exact:
        return doubled(value)
    if not isinstance(value, torch.Tensor):
        return value
    copy = value.detach().clone()
    if exact:
        copy = doubled(copy)
    return copy.requires_grad_(value.requires_grad)
