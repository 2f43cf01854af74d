"""Count operations in PyTorch by FlopCounterMode, run them unfused, and copy in the device's memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from math import prod
from typing import Any
from unittest import mock

import torch
from torch.utils.flop_counter import FlopCounterMode

from suite.errors import UserError
from suite.harness.implementation import Device, unseen

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def torch_device(device: Device) -> torch.device:
    """PyTorch's name of the device, which becomes the current one.

    Raises UserError where it is an accelerator and PyTorch sees none.
    """
    if device.kind == "cpu":
        return torch.device("cpu")
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None:
        built = torch.accelerator.current_accelerator() or "processors alone"
        raise unseen(f"PyTorch {torch.__version__}", f"it is built for {built}")
    torch.accelerator.set_device_index(device.local_rank)
    return accelerator


def wait(device: torch.device) -> None:
    """Wait until an accelerator has done all its work."""
    if device.type != "cpu":
        torch.accelerator.synchronize()


def number_type(device: Device) -> torch.dtype:
    """PyTorch's type for the device's precision; lets a GPU multiply fp32 as tf32 in precision tf32 only.

    Raises UserError for a precision of recipes, such as those of 8 bits.
    """
    if device.precision not in DTYPES:
        raise UserError(f"precision={device.precision}: PyTorch has no plain operations in it")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = device.precision == "tf32"
    return DTYPES[device.precision]


def arithmetic() -> Callable[[], None]:
    """See `Instruments.arithmetic`; does nothing for code that uses PyTorch's newer names, which exclude these."""
    held: list[Any] = [torch.backends.cuda.matmul, torch.backends.cudnn]
    try:
        before = [each.allow_tf32 for each in held]
    except RuntimeError:
        return lambda: None

    def back() -> None:
        for each, allowed in zip(held, before, strict=True):
            each.allow_tf32 = allowed

    return back


def apart() -> AbstractContextManager[Any]:
    """See `Instruments.apart`: torch.compile does nothing."""
    stance: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance


def unreplayed() -> AbstractContextManager[Any]:
    """Context in which the replay of a CUDA graph raises UserError: nothing sees its operators.

    There are none of torch.compile, which does nothing meanwhile.
    """

    def replay(*_: object) -> None:
        raise UserError(
            "a step replays a CUDA graph of its own, whose operators nothing sees: let it replay none where "
            "torch.compiler.set_stance forces eager execution, as reference_impls/torch_replayed.py does"
        )

    return mock.patch.object(torch.cuda.CUDAGraph, "replay", replay)


@contextmanager
def unfused() -> Iterator[None]:
    """Context in which attention and encoder layers of torch.nn run as separate operators, also without gradients.

    It is `unreplayed`, too.
    """
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with unreplayed():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def flops(call: Callable[[], object]) -> dict[str, int | None]:
    """See `Instruments.flops`."""
    with unfused(), Counter() as counter:
        call()
    found: dict[str, int | None] = counter.found
    return found


class Counter(FlopCounterMode):
    """Counts by operator in `found`: None for one that multiplies and has no count."""

    def __init__(self) -> None:
        super().__init__(display=False)
        self.found: dict[str, int | None] = {}

    def _count_flops(self, func_packet: Any, out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name, count = str(func_packet), counted(func_packet, args, kwargs, out)
        before = self.found.get(name, 0)
        if count != 0:
            self.found[name] = None if count is None or before is None else before + count
        return out


def counted(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any], made: Any) -> int | None:
    """Operations of a call of an operator; None if it multiplies, by its name, but has no count."""
    if operator in COUNTS:
        count: int = COUNTS[operator](*args, **kwargs, out_val=made)
        return count
    return None if MULTIPLIES.search(operator.__name__) else 0


def convolution_backward(
    gradient: Sequence[int], images: Sequence[int], filters: Sequence[int], *rest: Any, out_shape: Any
) -> int:
    """Operations of the gradients by images and by filters [out, in / groups, ...], whichever are asked for.

    PyTorch's own count ignores groups: 6.6 times too much for MobileNet v2.
    """
    *_, transposed, _, _, wanted = rest
    products = prod(images if transposed else gradient) * prod(filters[1:])
    return 2 * products * (bool(wanted[0]) + bool(wanted[1]))


def attention(query: Sequence[int], key: Sequence[int], value: Sequence[int], *rest: Any, **more: Any) -> int:
    """Operations of attention with a query [batch, heads, positions, d].

    PyTorch's own count is for GPUs only, and fails if keys and values have fewer heads.
    """
    return 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def attention_backward(
    gradient: Sequence[int], query: Sequence[int], key: Sequence[int], value: Sequence[int], *rest: Any, **more: Any
) -> int:
    """Operations of its gradients: three products of query and key, as scores are made again, and two of values."""
    return 2 * prod(query[:-1]) * key[-2] * (3 * query[-1] + 2 * value[-1])


def self_attention(query: Sequence[int], *rest: Any, **more: Any) -> int:
    """Operations of torch.nn.MultiheadAttention as one operator, of a query [batch, positions, d] with itself."""
    *_, positions, width = query
    return 2 * prod(query) * (4 * width + 2 * positions)


def encoder_layer(source: Sequence[int], *rest: Any, **more: Any) -> int:
    """Operations of torch.nn.TransformerEncoderLayer as one operator."""
    weights: tuple[Sequence[int], Sequence[int]] = (rest[13], rest[15])
    return self_attention(source) + 2 * prod(source[:-1]) * sum(map(prod, weights))


def onednn_recurrent(
    inputs: Sequence[int], by_input: Sequence[int], by_hidden: Sequence[int], *_: Any, **__: Any
) -> int:
    """Operations of one layer in one direction, with weights [gates * hidden, ...]."""
    return 2 * prod(inputs[:-1]) * (prod(by_input) + prod(by_hidden))


def cudnn_recurrent(inputs: Sequence[int], weights: Sequence[Sequence[int]], *_: Any, **__: Any) -> int:
    """Operations of all layers in all directions: each weight matrix takes each input."""
    return 2 * prod(inputs[:-1]) * sum(prod(each) for each in weights if len(each) == 2)


def cudnn_recurrent_backward(
    inputs: Sequence[int], weights: Sequence[Sequence[int]], *rest: Any, out_shape: Any
) -> int:
    """Operations of the gradient by inputs, which the other needs, and of the one by weights if it is asked for."""
    *_, wanted = rest
    return cudnn_recurrent(inputs, weights) * (1 + bool(wanted[3]))


def by_vector(matrix: Sequence[int], *_: Any, **__: Any) -> int:
    """Operations of a matrix, or a vector, times a vector."""
    return 2 * prod(matrix)


aten = torch.ops.aten
KINDS = (
    "flash_attention",
    "efficient_attention",
    "cudnn_attention",
    "flash_attention_for_cpu",
    "fused_attention_overrideable",  # XPU's
)
ATTENTION = [f"_scaled_dot_product_{each}" for each in KINDS]
COUNTED: dict[Any, Callable[..., int]] = {
    aten.convolution_backward: convolution_backward,
    **{getattr(aten, name): attention for name in ATTENTION},
    **{getattr(aten, f"{name}_backward"): attention_backward for name in ATTENTION},
    aten._native_multi_head_attention: self_attention,
    aten._transformer_encoder_layer_fwd: encoder_layer,
    aten.mkldnn_rnn_layer: onednn_recurrent,
    aten.mkldnn_rnn_layer_backward: lambda *given, **more: 2 * onednn_recurrent(*given, **more),
    aten._cudnn_rnn: cudnn_recurrent,
    aten._cudnn_rnn_backward: cudnn_recurrent_backward,
    aten.mv: by_vector,
    aten.dot: by_vector,
    aten.vdot: by_vector,
    aten.addmv: lambda _, *given, **more: by_vector(*given, **more),
}
COUNTS = FlopCounterMode(display=False, custom_mapping=COUNTED).flop_registry  # PyTorch's own, and these
# Names of operators that multiply matrices or convolve, such as those of libraries that PyTorch does not count
MULTIPLIES = re.compile(
    r"(?:^|_)(?:[a-z]*(?:mm|mv|dot|matmul)|linear|trilinear|conv(?:olution|\dd)?|rnn|attention)(?:_|$)"
)


def copy(size: int, device: Device) -> Callable[[int], None]:
    """See `Instruments.copy`."""
    source = torch.ones(size // 4, device=torch_device(device))
    target = torch.empty_like(source)

    def copied(times: int) -> None:
        for _ in range(times):
            target.copy_(source)
        wait(source.device)

    return copied
