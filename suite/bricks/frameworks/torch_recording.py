"""The calls of a step in PyTorch, as the model's own code makes them: each function of torch that it calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode, resolve_name

from suite.bricks import arguments
from suite.bricks.frameworks.torch_table import NAMES
from suite.bricks.record import Call, Tensor
from suite.bricks.recorded import BATCHES, Called, Recorded
from suite.errors import UserError
from suite.probe.instruments.torch_models import SIZE, Model
from suite.probe.subject import SEED, Subject
from suite.probe.workload import Workload

LAYOUTS = {
    torch.contiguous_format: "contiguous",
    torch.channels_last: "channels_last",
    torch.preserve_format: "preserve",
}
WARM_UP = 1  # steps that are not recorded: an optimizer's first makes its state


class Unencodable(Exception):
    """An argument that no brick can hold."""


class Recorder(TorchFunctionMode):
    """Notes each function of torch that is called, but not those that such a function calls itself."""

    def __init__(self) -> None:
        super().__init__()
        self.recorded = Recorded()
        self.numbers: dict[int, int] = {}  # of tensors, by their identity
        self.alive: list[torch.Tensor] = []  # so that no other tensor gets the identity of one that is gone
        self.made: set[int] = set()  # identities of what calls made

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Run one function, and note it."""
        kwargs, name = kwargs or {}, NAMES.get(func)
        try:
            given: tuple[Any, ...] | None = tuple(self.encoded(each) for each in args)
            named = {key: self.encoded(value) for key, value in kwargs.items() if value is not None}
        except Unencodable:
            given, named = None, {}
        result = func(*args, **kwargs)
        made = list(tensors(result))
        if getattr(func, "__name__", "") in ("__get__", "__set__"):
            self.made |= {id(each) for each in made if args and id(args[0]) in self.made}
            self.alive += made
            return result
        in_place = name is not None and result is None and (name.endswith(("_", "__setitem__")))
        if not made and not in_place:
            return result
        if in_place:
            made = list(tensors(args[0]))
        self.made |= {id(each) for each in made}
        try:
            call = Call(op=name, arguments=given, keywords=named) if name and given is not None else None
            numbers = tuple(self._number(each, anew=True) for each in made)
        except (ValueError, Unencodable):
            call = None
        if call is None:
            self.recorded.left_out[resolve_name(func) or getattr(func, "__name__", "a function without a name")] += 1
            return result
        gradient = torch.is_grad_enabled() and any(each.requires_grad for each in made)
        self.recorded.calls.append(Called(call, numbers, gradient))
        return result

    def encoded(self, value: Any, depth: int = 0) -> Any:
        """An argument, as a brick holds it; tensors by the step's numbers. Raises Unencodable."""
        match value:
            case None | bool() | int() | str():
                return value
            case float():
                return arguments.number(value)
            case torch.Tensor():
                return {"tensor": self._number(value)}
            case torch.dtype() if (named := str(value).removeprefix("torch.")) in arguments.DTYPES:
                return {"dtype": named}
            case torch.device():
                return {"device": True}
            case torch.memory_format():
                return {"layout": LAYOUTS[value]}
            case slice():
                ends = [value.start, value.stop, value.step]
                if all(each is None or isinstance(each, int) for each in ends):
                    return {"slice": ends}
            case tuple() | list() if depth < arguments.DEEPEST:
                return [self.encoded(each, depth + 1) for each in value]
        if value is ...:
            return {"ellipsis": True}
        raise Unencodable

    def _number(self, tensor: torch.Tensor, anew: bool = False) -> int:
        if anew or id(tensor) not in self.numbers:
            self.numbers[id(tensor)] = len(self.recorded.tensors)
            self.alive.append(tensor)
            self.recorded.tensors.append(_described(tensor, id(tensor) in self.made))
        return self.numbers[id(tensor)]


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Those of a result, in their order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from tensors(each)


def _described(tensor: torch.Tensor, fresh: bool) -> Tensor:
    shape, dtype = tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
    if dtype not in arguments.DTYPES:
        raise Unencodable
    strides = None if tensor.is_contiguous() or 0 in tensor.stride() else tuple(tensor.stride())
    whole = dtype not in arguments.FLOATS and dtype != "bool" and tensor.numel() > 0
    with torch._C.DisableTorchFunction():
        below = int(tensor.max()) + 1 if whole and not isinstance(tensor, FakeTensor) else 1
        gradient = tensor.requires_grad and tensor.is_floating_point()
    told: dict[str, Any] = {"shape": shape, "dtype": dtype, "fresh": fresh, "gradient": gradient}
    try:
        return Tensor(**told, strides=strides, below=min(max(below, 1), (1 << 31) - 1))
    except ValueError:  # elements that lie on top of each other, as of an unfolded tensor
        return Tensor(**told)


def record(subject: Subject, network: Callable[[], Any] | None = None) -> Sequence[Recorded]:
    """See `Framework.record`."""
    if subject.conditions.task:
        return _recorded(subject, network)
    try:
        with FakeTensorMode():
            return _recorded(subject, network)
    except UserError as error:
        if not isinstance(error.__cause__, DataDependentOutputException):
            raise
    return _recorded(subject, network)  # where the building itself asks for numbers, as RegNet's does


def _recorded(subject: Subject, network: Callable[[], Any] | None) -> Sequence[Recorded]:
    conditions, found = subject.conditions, list[Recorded]()
    batches = BATCHES if conditions.task else 1
    with subject.instruments.apart():
        if network:
            workload: Workload = Model(network(), conditions, conditions.size or SIZE, subject.device, SEED)
        else:
            workload = subject.build()
        workload.ready(WARM_UP + batches)
        workload.run(WARM_UP)
        for _ in range(batches):
            with Recorder() as recorder:
                workload.run(1)
            found.append(recorder.recorded)
    return found
