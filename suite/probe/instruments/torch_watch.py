"""Watch a workload in PyTorch: phases by hooks alone, calls of operators under the profiler."""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise
from math import prod
from threading import get_ident
from typing import Any
from unittest import mock

import torch
from torch.nn.modules import module as modules
from torch.nn.modules.loss import _Loss
from torch.profiler import ProfilerActivity, profile, record_function

from suite.errors import UserError
from suite.harness.implementation import Device
from suite.probe.instruments.torch_counting import apart, counted, torch_device, unreplayed
from suite.probe.instruments.torch_operators import Operators, filled, shapes_of, tensors, written
from suite.probe.tracing import Call, Phases, Trace
from suite.probe.workload import Workload

# Names of operators that make no numbers
UNMOVED = re.compile("_unsafe_view|unsafe_split(_with_sizes)?|(new_)?empty(_.*)?")
# Operators in WRITTEN read nothing of the first tensors that they are given, those in PICKED as much of the first as
# they make, those in BAG a row of it for each index, those in LOSS a number for each target, and those in SHAPED
# nothing of the second, whose shape they take;
# those in PUT, and add_ of a sparse one, change as many numbers of the first as the largest of the others has, or as
# index_put_ addresses
WRITTEN = re.compile(r"new_.*|.*_like|(_foreach_)?(copy|zero|fill|uniform|normal|bernoulli|exponential|random)_")
PICKED = re.compile("embedding|index|index_select|gather|take|sparse_mask")
BAG = re.compile("_embedding_bag(_forward_only)?")
LOSS = re.compile("nll_loss(2d)?_forward")
SHAPED = re.compile(r"(nll_loss(2d)?|_?adaptive_(avg|max)_pool[23]d|(avg|max)_pool[23]d(_with_indices)?)_backward")
PUT = re.compile("index_(add|copy|put)_|scatter_((add|reduce)_)?")
REGION = "probe "  # begins the name of a region of the profiler that is one call of an operator


class Places:
    """Where a step is: its phase and its layer; in a backward pass the layer is that whose output is differentiated.

    The nodes of the autograd graph have rising numbers: a node's layer is the one that was being called when the node
    got its number. Each thread numbers its own: a GPU's backward pass has one, in which activations may be made again.
    `mark` is told each phase that begins.
    """

    def __init__(self, mark: Callable[[str], None] = lambda phase: None) -> None:
        self.mark, self.phase = mark, "data"
        self.stack: list[torch.nn.Module] = []
        self.names: dict[torch.nn.Module, str] = {}
        # of each thread: a number, and the layer from it on
        self.changes: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
        self.thread = get_ident()  # which made the nodes that are differentiated

    def enter(self, phase: str) -> None:
        """Begin a phase."""
        self.phase = phase
        self.mark(phase)

    def layer(self) -> str:
        """The innermost layer now, or an empty string."""
        node = torch._C._current_autograd_node()
        if node is None:
            return self.names[self.stack[-1]] if self.stack else ""
        changes = self.changes[self.thread]
        after = bisect_right(changes, node._sequence_nr(), key=lambda change: change[0])
        return changes[after - 1][1] if after else ""

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Context in which calls of modules and of gradients are followed."""

        def followed(taken: Callable[..., Any]) -> Callable[..., Any]:
            def gradients(*args: Any, **keywords: Any) -> Any:
                outer, self.thread = self.thread, get_ident()
                within = self.phase == "backward"  # of activations that are made again for it
                if not within:
                    self.enter("backward")
                found = taken(*args, **keywords)
                self.thread = outer
                if not within:
                    self.enter("update")
                return found

            return gradients

        with ExitStack() as stack:
            for name in ("backward", "grad"):
                taken = getattr(torch.autograd, name)
                stack.enter_context(mock.patch.object(torch.autograd, name, followed(taken)))
            for hook in (
                modules.register_module_forward_pre_hook(self._before),
                modules.register_module_forward_hook(self._after, always_call=True),
            ):
                stack.callback(hook.remove)
            yield

    def parameters(self) -> dict[str, int]:
        """How many parameters the layers of each name have, each counted where it is first found."""
        found, seen = dict.fromkeys(self.names.values(), 0), set[torch.Tensor]()
        for module, name in self.names.items():
            own = set(module.parameters(recurse=False)) - seen
            found[name] += sum(each.numel() for each in own)
            seen |= own
        return found

    def called(self) -> None:
        """Raise UserError where no module was called: all would count as data, and weights as temporary."""
        if not self.names:
            raise UserError("no torch.nn.Module is called in a step: nothing tells its phases and its weights")

    def _before(self, module: torch.nn.Module, _: Any) -> None:
        if not self.stack:
            if self.phase != "backward":  # in which activations may be made again
                self.enter("loss" if isinstance(module, _Loss) else "forward")
            if module not in self.names:
                root = type(module).__name__
                found = {each: f"{root}.{name}".rstrip(".") for name, each in module.named_modules()}
                self.names |= {each: name for each, name in found.items() if each not in self.names}
        self.names.setdefault(module, type(module).__name__)
        self.stack.append(module)
        self._changed()

    def _after(self, *_: Any) -> None:
        self.stack.pop()
        self._changed()
        if not self.stack and self.phase != "backward":
            self.enter("loss")

    def _changed(self) -> None:
        number = torch.autograd._get_sequence_nr()  # type: ignore[attr-defined]
        self.changes[get_ident()].append((number, self.names[self.stack[-1]] if self.stack else ""))


class Calls(Operators):  # type: ignore[no-untyped-call]
    """Makes each call of an operator a region of the profiler, and notes what it was given."""

    def __init__(self, places: Places) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.places = places
        self.noted: list[Call] = []  # without their seconds, which the profiler has

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator."""
        with record_function(f"{REGION}{len(self.noted)}"):
            result = func(*args, **kwargs)
        read = {name: value for name, value in kwargs.items() if name not in filled(func)}
        given, made = tensors((args, read)), tensors(result) or written(func, args, kwargs)
        name = str(func.overloadpacket)
        flops = counted(func.overloadpacket, args, kwargs, result)
        viewed = func.is_view or torch.Tag.inplace_view in func.tags
        moved = 0 if viewed else moves(func.overloadpacket.__name__, args, given, made)
        self.noted.append(Call(name, shapes_of(given), self.places.phase, self.places.layer(), 0.0, flops, moved))
        return result


def moves(operator: str, args: Sequence[Any], given: Sequence[torch.Tensor], made: Sequence[torch.Tensor]) -> int:
    """Bytes that an operator of this name reads and writes, in the tensors that it was given, in `args`, and made."""
    if UNMOVED.fullmatch(operator):
        return 0
    sizes = [_size(each) for each in (*given, *made)]
    if given and WRITTEN.fullmatch(operator):
        sizes[: len(made)] = [0] * len(made)
    elif PICKED.fullmatch(operator):
        sizes[0] = min(sizes[0], made[-1].nbytes)
    elif BAG.fullmatch(operator):
        sizes[0] = min(sizes[0], given[1].numel() * given[0].shape[1] * given[0].itemsize)
    elif LOSS.fullmatch(operator):
        sizes[0] = min(sizes[0], given[1].numel() * given[0].itemsize)
    elif SHAPED.fullmatch(operator):
        sizes[1] = 0
    elif PUT.fullmatch(operator) or (operator == "add_" and getattr(args[1], "is_sparse", False)):
        addressed = torch.ops.aten.index(*args[:2]) if operator == "index_put_" else max(given[1:], key=torch.numel)
        sizes[0] = sizes[-1] = min(sizes[0], addressed.numel() * given[0].itemsize)
    return sum(sizes)


def _size(tensor: torch.Tensor) -> int:
    """The bytes of a tensor in memory, in which the numbers along an expanded axis are one."""
    if tensor.layout != torch.strided:
        return tensor.nbytes
    return prod(size for size, step in zip(tensor.shape, tensor.stride(), strict=True) if step) * tensor.itemsize


class Watched:
    """See `tracing.Watched`."""

    def __init__(self, build: Callable[[], Workload], device: Device) -> None:
        self.device = torch_device(device)
        with apart():
            self.workload = build()

    def phases(self, steps: int) -> Phases:
        """See `tracing.Watched`: between marks, which are events on a GPU and the clock on a CPU."""
        marks: list[tuple[str, Any]] = []
        self.workload.ready(steps)
        places = Places(lambda phase: marks.append((phase, self._now())))
        with apart(), places.followed():
            start = time.perf_counter()
            for _ in range(steps):
                places.enter("data")
                self.workload.run(1)
                places.mark("end")
            seconds = time.perf_counter() - start
        places.called()
        found: dict[str, float] = defaultdict(float)
        for (phase, begin), (_, end) in pairwise(marks):
            if phase != "end":
                found[phase] += self._seconds(begin, end)
        return Phases(steps, seconds, dict(found))

    def trace(self, steps: int) -> Trace:
        """See `tracing.Watched`."""
        gpu = self.device.type != "cpu"
        self.workload.ready(steps)
        places = Places()
        calls = Calls(places)
        with apart(), unreplayed(), places.followed(), self.profiled() as profiler, calls:
            start = time.perf_counter()
            for _ in range(steps):
                places.enter("data")
                self.workload.run(1)
            whole = time.perf_counter() - start
        seconds = [0.0] * len(calls.noted)
        for event in profiler.events() or []:
            if event.name.startswith(REGION):
                inner = event.cpu_children
                spent = (each.device_time_total if gpu else each.cpu_time_total for each in inner)
                seconds[int(event.name.removeprefix(REGION))] += sum(spent) / 1e6
        if not calls.noted:
            raise UserError("a step calls no operator of PyTorch")
        if not any(seconds):
            raise UserError(
                "PyTorch's profiler tells no time of any operator: on a GPU CUPTI does, if no other profiler has it"
            )
        found = [replace(call, seconds=each) for call, each in zip(calls.noted, seconds, strict=True)]
        return Trace(steps, whole, found, places.parameters())

    def profiled(self) -> profile:
        """PyTorch's profiler, of the accelerator too where it runs on one."""
        activities = [ProfilerActivity.CPU] if self.device.type == "cpu" else None
        return profile(activities=activities, acc_events=True)

    def _now(self) -> Any:
        if self.device.type == "cpu":
            return time.perf_counter()
        event = torch.Event(self.device, enable_timing=True)
        event.record()
        return event

    def _seconds(self, begin: Any, end: Any) -> float:
        if self.device.type == "cpu":
            return float(end - begin)
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3


watch = Watched
