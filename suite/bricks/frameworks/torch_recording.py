"""The calls of a step in PyTorch: each torch function that the model's own code calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils.weak import WeakTensorKeyDictionary

from suite.bricks import arguments
from suite.bricks.brick import Call, Tensor
from suite.bricks.frameworks.torch_table import NAMES
from suite.bricks.recorded import BATCHES, Called, Recorded
from suite.errors import UserError
from suite.measure.machine import room_of
from suite.probe.instruments.torch_models import Model
from suite.probe.record import DEFAULT_SIZE
from suite.probe.subject import SEED, Subject
from suite.probe.workload import Training, Workload

LAYOUTS = {
    torch.contiguous_format: "contiguous",
    torch.channels_last: "channels_last",
    torch.preserve_format: "preserve",
}
TIMED = 5  # steps that are timed as a whole, and as many whose calls are timed
COPIES = 4  # of a model's weights that a step needs room for: weights, gradients, momenta, and its results
ASKED = DataDependentOutputException, DynamicOutputShapeException  # raised if code asks fake tensors for values


class Recorder(TorchFunctionMode):
    """Records each torch function that is called, but not those that such a function calls itself."""

    def __init__(self) -> None:
        super().__init__()
        self.recorded = Recorded()
        self.numbers = WeakTensorKeyDictionary()  # of the tensors that are still alive
        self.made = WeakTensorKeyDictionary()  # tensors that calls made

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Run one function and record it."""
        kwargs, name = kwargs or {}, NAMES.get(func)
        try:
            given: tuple[Any, ...] | None = tuple(self.encoded(each) for each in args)
            named = {key: self.encoded(value) for key, value in kwargs.items() if value is not None}
        except ValueError:
            given, named = None, {}
        result = func(*args, **kwargs)
        made = list(tensors(result))
        if _is_attribute(func):
            if args and args[0] in self.made:
                self._note(made)
            return result
        in_place = name is not None and result is None and (name.endswith(("_", "__setitem__")))
        if not made and not in_place:
            return result
        if in_place:
            made = list(tensors(args[0]))
        self._note(made)
        try:
            call = Call(op=name, arguments=given, keywords=named) if name and given is not None else None
            numbers = tuple(self._number(each, anew=True) for each in made)
        except ValueError:
            call = None
        if call is None:
            self.recorded.left_out[resolve_name(func) or getattr(func, "__name__", "a function without a name")] += 1
            return result
        gradient = torch.is_grad_enabled() and any(each.requires_grad for each in made)
        self.recorded.calls.append(Called(call, numbers, gradient))
        return result

    def encoded(self, value: Any, depth: int = 0) -> Any:
        """An argument as a brick holds it, with tensors by number. Raises ValueError if a brick cannot hold it."""
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
            case torch.memory_format() if value in LAYOUTS:
                return {"layout": LAYOUTS[value]}
            case slice():
                ends = [value.start, value.stop, value.step]
                if all(each is None or isinstance(each, int) for each in ends):
                    return {"slice": ends}
            case tuple() | list() if depth < arguments.DEEPEST:
                return [self.encoded(each, depth + 1) for each in value]
        if value is ...:
            return {"ellipsis": True}
        raise ValueError("an argument that no brick can hold")

    def _note(self, made: Sequence[torch.Tensor]) -> None:
        for each in made:
            self.made[each] = True

    def _number(self, tensor: torch.Tensor, anew: bool = False) -> int:
        known = self.recorded.tensors
        if anew or tensor not in self.numbers:
            described = _described(tensor, tensor in self.made)
            self.numbers[tensor] = len(known)
            known.append(described)
        number = int(self.numbers[tensor])
        with torch._C.DisableTorchFunction():
            if tensor.requires_grad and tensor.is_floating_point() and not known[number].gradient:
                # made within an autograd.Function, which set requires_grad when it returned
                known[number] = known[number].model_copy(update={"gradient": True})
        return number


class Inside(TorchFunctionMode):
    """Records the CPU seconds of each call that may be in a brick: the table's functions and the backward pass.

    `waits` are the seconds that the thread has waited before each of them, and after the last, for other processes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds, self.waits = list[float](), list[float]()
        self.idle = _idle()

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Run one function."""
        if func not in NAMES and func is not torch.Tensor.backward:
            return func(*args, **(kwargs or {}))
        self.waits.append(_idle() - self.idle)
        began = time.thread_time()
        result = func(*args, **(kwargs or {}))
        self.seconds.append(time.thread_time() - began)
        self.idle = _idle()
        return result

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        self.waits.append(_idle() - self.idle)


def _idle() -> float:
    """A clock in seconds that stands still while this thread computes."""
    return time.perf_counter() - time.thread_time()


def between(workload: Workload, times: int) -> float:
    """Seconds of a step that lie in no brick: CPU time of the whole step less its calls, and waits between the calls.

    The whole, each call and each wait is the least of `times` tries. A benchmark's batches may differ, so it repeats
    one and the same step; if the number of calls differs all the same, the least sum of all calls counts.
    """
    whole, inside, waits = list[float](), list[list[float]](), list[list[float]]()
    back = _before_a_step(workload)
    for _ in range(times):
        back()
        began = time.thread_time()
        workload.run(1)
        whole.append(time.thread_time() - began)
        back()
        with Inside() as mode:
            workload.run(1)
        inside.append(mode.seconds)
        waits.append(mode.waits)
    return max(min(whole) - _least(inside), 0.0) + _least(waits)


def _least(tries: Sequence[Sequence[float]]) -> float:
    """The sum of what each try has, each the least of all tries if these have as many."""
    alike = len({len(each) for each in tries}) == 1
    return sum(max(min(each), 0.0) for each in zip(*tries, strict=True)) if alike else min(map(sum, tries))


def _before_a_step(workload: Workload) -> Callable[[], None]:
    """A function that goes back to before one and the same benchmark step, or readies another workload's next step."""
    if not isinstance(workload, Training):
        return lambda: workload.ready(1)
    workload.ready(2)
    state, seen = workload.made.state_dict(), workload.seen

    def back() -> None:
        workload.made.load_state_dict(state)
        workload.seen = seen
        workload.run(1)  # so that work after loading a state, such as an epoch's order, is not in the timed step

    return back


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in a result, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from tensors(each)


def _is_attribute(func: Any) -> bool:
    return getattr(func, "__name__", "") in ("__get__", "__set__")


def _described(tensor: torch.Tensor, fresh: bool) -> Tensor:
    """The tensor as a brick describes it. Raises ValueError for a type or layout that bricks do not have."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in arguments.DTYPES or tensor.layout != torch.strided or tensor.is_nested:
        raise ValueError(f"a tensor of {dtype}, {tensor.layout}")
    shape = tuple(tensor.shape)
    strides = None if tensor.is_contiguous() or 0 in tensor.stride() else tuple(tensor.stride())
    whole = dtype not in arguments.FLOATS and dtype != "bool" and tensor.numel() > 0
    with torch._C.DisableTorchFunction():
        below = int(tensor.long().max()) + 1 if whole and not isinstance(tensor, FakeTensor) else 1
        gradient = tensor.requires_grad and tensor.is_floating_point()
    told: dict[str, Any] = {"shape": shape, "dtype": dtype, "fresh": fresh, "gradient": gradient}
    try:
        return Tensor(**told, strides=strides, below=min(max(below, 1), (1 << 31) - 1))
    except ValueError:  # elements overlap, as in an unfolded tensor
        return Tensor(**told)


def record(subject: Subject, network: Callable[[], Any] | None = None) -> Sequence[Recorded]:
    """See `Framework.record`."""
    with subject.instruments.apart():
        return _of_task(subject) if subject.conditions.task else _of_model(subject, network)


def _of_task(subject: Subject) -> Sequence[Recorded]:
    evaluation = subject.conditions.mode == "infer"
    workload, found = _recorded(subject, None, 1 if evaluation else BATCHES)
    found[0].between = between(workload, 1 if evaluation else TIMED)
    return found


def _of_model(subject: Subject, network: Callable[[], Any] | None) -> Sequence[Recorded]:
    try:
        with FakeTensorMode():
            workload, found = _recorded(subject, network, 1)
    except Exception as error:  # code of one's own may do what tensors of shapes alone cannot
        if network is None and not isinstance(error, ASKED) and not isinstance(error.__cause__, ASKED):
            raise
        workload, found = _recorded(subject, network, 1)
    assert isinstance(workload, Model)
    weights = sum(each.numel() * each.element_size() for each in workload.network.parameters())
    if COPIES * weights < room_of("cpu"):
        few = min(workload.samples, 2 if workload.training else 1)  # BatchNorm cannot train on a single value a channel
        found[0].between = between(_built(subject.changed(batch=few), network), TIMED)  # the same for any batch size
    return found


def _recorded(subject: Subject, network: Callable[[], Any] | None, batches: int) -> tuple[Workload, list[Recorded]]:
    workload, found = _built(subject, network), list[Recorded]()
    for index in range(batches):
        at = workload.go_to(index) if isinstance(workload, Training) else None
        workload.ready(1)
        with Recorder() as recorder:
            workload.run(1)
        recorder.recorded.at = at
        found.append(recorder.recorded)
    return workload, found


def _built(subject: Subject, network: Callable[[], Any] | None) -> Workload:
    conditions = subject.conditions
    if network:
        made = network()
        if isinstance(made, torch.jit.ScriptModule):
            raise UserError(f"{conditions.name} is TorchScript, whose calls cannot be seen: return the module itself")
        workload: Workload = Model(made, conditions, conditions.size or DEFAULT_SIZE, subject.device, SEED)
    else:
        workload = subject.build()
    workload.ready(1)
    workload.run(1)  # an optimizer's first step makes its state
    return workload
