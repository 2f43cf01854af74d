"""Run a brick in PyTorch from its file alone."""

from __future__ import annotations

import logging
import statistics
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from suite.bricks.brick import Brick, Call, Tensor
from suite.bricks.frameworks.torch_recording import LAYOUTS, tensors
from suite.bricks.frameworks.torch_table import FUNCTIONS
from suite.errors import UserError, unknown
from suite.harness.implementation import Device
from suite.probe.instruments.torch_counting import number_type, torch_device, wait
from suite.probe.record import one_line

NOISE = 1 << 16  # numbers that are drawn; a larger tensor repeats them
REMEMBERED, LEAST_REMEMBERED = 101, 11  # empty backward passes, whose median is subtracted
LEAST = 1e-7  # seconds of a brick, if it takes no longer than what is subtracted

Values = list[Any]  # the brick's tensors, then what each call made
Get = Callable[[Values], Any]
Bind = Callable[[Values], Callable[[], Any]]


class Runner:
    """See `frameworks.Runner`."""

    def __init__(self, brick: Brick, device: Device, mode: str) -> None:
        self.brick, self.mode, self.device = brick, mode, torch_device(device)
        self.dtype = number_type(device)
        self.calls = [_compiled(call, len(brick.tensors), self.device) for call in brick.calls]
        kinds = {(each.dtype, each.below) for each in brick.tensors}
        self.noise = {kind: noise(*kind, self.device) for kind in sorted(kinds)}
        self.held = self._lay_held()
        self.twins: list[torch.Tensor | None] = []
        self.bytes = brick.bytes
        self.given: Values = []
        self.first: Callable[[], Any] | None = None  # call, bound to its arguments so that the binding is not timed
        self.wanted: list[Any] = []
        self.gradients: list[torch.Tensor] = []

    def prepare(self, twin: bool = False) -> None:
        """See `frameworks.Runner`."""
        self.done()
        given: Values = []
        if twin and not self.twins:
            self.twins = self._lay_held()
        for described, held in zip(self.brick.tensors, self.twins if twin else self.held, strict=True):
            value = self._laid(described) if held is None else held
            if self.brick.gradient and described.gradient:
                if held is None:
                    value = value.requires_grad_() * 1  # not a leaf, so that it may be written in place
                self.wanted.append(torch.autograd.graph.get_gradient_edge(value))
            given.append(value)
        self.give(given)
        self.gradients = [torch.full_like(each, 1e-3) for each in self.gradients]

    def give(self, values: Values) -> None:
        """Run on `values` instead of what `prepare` makes."""
        self.given, self.first = values, self.calls[0](values)

    def done(self) -> None:
        """See `frameworks.Runner`."""
        self.given, self.first, self.wanted = [], None, []

    def run(self) -> float:
        """See `frameworks.Runner`. The time includes releasing the inputs and results, as a model does."""
        floor = backward_call(self.device) if self.brick.gradient else 0.0
        with self._precision():
            given, first = self.given, self.first
            for _ in range(2):  # the first brings this code back into the caches
                self.given, self.first = [], _nothing
                idle = self._timed()
            self.given, self.first = given, first
            del given, first
            return max(self._timed() - idle - floor, LEAST)

    def _timed(self) -> float:
        wait(self.device)
        began = time.perf_counter()
        outputs = self._made()
        if self.brick.gradient and outputs is not None:
            self._backward([each for each in tensors(outputs) if each.requires_grad])
        del outputs
        self.given, self.first = [], None
        wait(self.device)
        return time.perf_counter() - began

    def forward(self) -> list[torch.Tensor]:
        """The tensors that the last call makes."""
        with self._precision():
            return list(tensors(self._made()))

    def _made(self) -> Any:
        assert self.first, "prepared"
        made = self.first()
        if len(self.calls) > 1 and made is not None:
            values = [*self.given, made]
            for call in self.calls[1:]:
                values.append(call(values)())
            made = values[-1]
        return made

    def _backward(self, outputs: list[torch.Tensor]) -> None:
        if not self.gradients:
            self.gradients = [torch.full_like(each, 1e-3) for each in outputs]
        torch.autograd.grad(outputs, self.wanted, self.gradients, allow_unused=True)

    def _precision(self) -> AbstractContextManager[Any]:
        stack = ExitStack()
        if not self.brick.gradient:
            stack.enter_context(torch.inference_mode() if self.mode == "infer" else torch.no_grad())
        if self.dtype != torch.float32:
            stack.enter_context(torch.autocast(self.device.type, self.dtype))
        return stack

    def _lay_held(self) -> list[torch.Tensor | None]:
        """The tensors that all runs share, such as weights; None for fresh ones, which are made anew."""
        return [
            None if each.fresh else self._laid(each).requires_grad_(self.brick.gradient and each.gradient)
            for each in self.brick.tensors
        ]

    def _laid(self, described: Tensor) -> torch.Tensor:
        """Make a tensor that repeats the same few numbers, so that reading them does not flush the caches."""
        many, drawn = described.elements, self.noise[described.dtype, described.below]
        flat = torch.empty(many, dtype=drawn.dtype, device=self.device)
        if not isinstance(flat, FakeTensor):  # which has only a shape
            whole = many // NOISE * NOISE
            flat[:whole].view(-1, NOISE).copy_(drawn)
            flat[whole:].copy_(drawn[: many - whole])
        if described.strides is None:
            return flat.view(described.shape)
        return flat.as_strided(described.shape, described.strides)


BACKWARD: deque[float] = deque(maxlen=REMEMBERED)


def backward_call(device: torch.device) -> float:
    """Seconds of a backward pass that does nothing: a model has one for all its layers, each brick its own."""
    while True:
        value = torch.ones((), device=device, requires_grad=True)
        if isinstance(value, FakeTensor):  # which cannot be timed
            return 0.0
        made = value.view(())
        began = time.perf_counter()
        torch.autograd.grad(made, value)
        BACKWARD.append(time.perf_counter() - began)
        if len(BACKWARD) >= LEAST_REMEMBERED:
            return statistics.median(BACKWARD)


DRAWN: dict[tuple[str, int, torch.device], torch.Tensor] = {}  # one for all bricks, so that it stays in the caches


def noise(dtype_name: str, below: int, device: torch.device) -> torch.Tensor:
    """Floats from 0.5 to 1.5, valid for every operator, or uniformly drawn booleans or integers.

    Integers are below the largest power of two that is not above `below`, so that few different tensors are drawn.
    """
    dtype: torch.dtype = getattr(torch, dtype_name)
    below = 1 if dtype.is_floating_point else 1 << (below.bit_length() - 1)
    key = dtype_name, below, device
    if key in DRAWN and not isinstance(torch.empty(0), FakeTensor):
        return DRAWN[key]
    drawn = torch.rand(NOISE, device=device)
    if dtype.is_floating_point:
        drawn = (drawn + 0.5).to(dtype)
    elif dtype == torch.bool:
        drawn = drawn < 0.5
    else:
        drawn = (drawn * below).long().clamp(0, below - 1).to(dtype)
    if not isinstance(drawn, FakeTensor):
        DRAWN[key] = drawn
    return drawn


class Room(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Raises UserError for an operator whose result is larger than `room` bytes."""

    def __init__(self, room: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.room = room

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Run one operator."""
        result = func(*args, **(kwargs or {}))
        if any(each.numel() * each.element_size() > self.room for each in tensors(result)):
            raise UserError(f"it makes a tensor of more than {self.room:,} bytes")
        return result


def _nothing() -> None:
    pass


def runner(brick: Brick, device: Device, mode: str, room: int) -> Runner:
    """See `frameworks.Framework`."""
    tried(brick, device, mode, room)
    return Runner(brick, device, mode)


def tried(brick: Brick, device: Device, mode: str, room: int) -> list[torch.Tensor]:
    """See `frameworks.Framework`. Returns what the brick makes, as shapes alone."""
    untold = mock.patch.object(logging.getLogger(FakeTensorMode.__module__), "disabled", True)  # of what does not fit
    try:
        with untold, FakeTensorMode(), Room(room):
            made = Runner(brick, device, mode)
            if made.bytes > room:
                raise UserError(f"its tensors take {made.bytes:,} bytes; there is room for {room:,}")
            made.prepare()
            made.run()
            made.prepare()
            return made.forward()
    except UserError:
        raise
    except Exception as error:  # whatever torch raises for arguments that do not fit
        raise UserError(f"{brick.name} cannot be run: {one_line(error)}") from error


def _compiled(call: Call, given: int, device: torch.device) -> Bind:
    """A function that binds a call to the values so far. Raises UserError for an operator not in the table."""
    function = FUNCTIONS.get(call.op)
    if function is None:
        raise unknown("operator", call.op, FUNCTIONS)
    arguments = [_getter(each, given, device) for each in call.arguments]
    keywords = {name: _getter(each, given, device) for name, each in call.keywords.items()}
    returns_none = call.op.endswith(("_", "__setitem__"))

    def bind(values: Values) -> Callable[[], Any]:
        positional = [get(values) for get in arguments]
        bound = partial(function, *positional, **{name: get(values) for name, get in keywords.items()})
        return bound if not returns_none else lambda: positional[0] if (made := bound()) is None else made

    return bind


def _getter(argument: Any, given: int, device: torch.device) -> Get:
    """A function that takes an argument's value from the values so far."""
    match argument:
        case {"tensor": at}:
            return lambda values: values[at]
        case {"output": [call, at]}:
            return lambda values: list(tensors(values[given + call]))[at]
        case list() | tuple():
            gets = [_getter(each, given, device) for each in argument]
            return lambda values: tuple(get(values) for get in gets)
        case {"dtype": name}:
            value: Any = getattr(torch, name)
        case {"device": True}:
            value = device
        case {"layout": name}:
            value = next(layout for layout, each in LAYOUTS.items() if each == name)
        case {"slice": ends}:
            value = slice(*ends)
        case {"number": name}:
            value = float(name)
        case {"ellipsis": True}:
            value = ...
        case _:
            value = argument
    return lambda values: value
