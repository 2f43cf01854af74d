"""What PyTorch counts and how fast the device is: operations by FlopCounterMode, a matrix product, a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from suite.errors import UserError
from suite.harness.implementation import Device, unseen

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def torch_device(device: Device) -> torch.device:
    """PyTorch's name of the device. Raises UserError where it is a GPU and PyTorch sees none."""
    if device.kind == "gpu" and not torch.cuda.is_available():
        raise unseen(f"PyTorch {torch.__version__}", f"it is built for CUDA {torch.version.cuda}")
    return torch.device("cuda" if device.kind == "gpu" else "cpu")


@contextmanager
def apart() -> Iterator[None]:
    """See `Instruments.apart`: torch.compile does nothing."""
    torch.compiler.set_stance("force_eager")
    try:
        yield
    finally:
        torch.compiler.set_stance("default")


def flops(call: Callable[[], object]) -> dict[str, int]:
    """See `Instruments.flops`: as FlopCounterMode counts them."""
    with FlopCounterMode(display=False, custom_mapping=COUNTED) as counter:
        call()
    return {str(operator): count for operator, count in counter.get_flop_counts().get("Global", {}).items()}


def convolution_backward(
    gradient: Sequence[int], images: Sequence[int], filters: Sequence[int], *rest: Any, out_shape: Any
) -> int:
    """Of the gradients by images and filters [out, in / groups, ...], whichever are asked for.

    PyTorch's own count takes a grouped convolution for one without groups: 6.6 times too much for MobileNet v2.
    """
    *_, transposed, _, _, wanted = rest
    products = prod(images if transposed else gradient) * prod(filters[1:])
    return 2 * products * (bool(wanted[0]) + bool(wanted[1]))


def attention(query: Sequence[int], key: Sequence[int], value: Sequence[int], *rest: Any, **more: Any) -> int:
    """Of the attention that a CPU takes, which PyTorch counts on GPUs alone."""
    count: int = sdpa_flop_count(query, key, value)  # type: ignore[no-untyped-call]
    return count


def attention_backward(
    gradient: Sequence[int], query: Sequence[int], key: Sequence[int], value: Sequence[int], *rest: Any, **more: Any
) -> int:
    """Of its gradients, as PyTorch counts those on GPUs: with the products of the forward pass that are made again."""
    count: int = sdpa_backward_flop_count(gradient, query, key, value)  # type: ignore[no-untyped-call]
    return count


COUNTED = {
    torch.ops.aten.convolution_backward: convolution_backward,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: attention_backward,
}


def matrix_product(size: int, device: Device) -> Callable[[], None]:
    """See `Instruments.matrix_product`."""
    if device.precision not in DTYPES:
        raise UserError(f"precision={device.precision}: PyTorch has no plain matrix product in it")
    where = torch_device(device)
    left, right = (torch.randn(size, size).to(where, DTYPES[device.precision]) for _ in range(2))

    def product() -> None:
        torch.mm(left, right)
        if where.type == "cuda":
            torch.cuda.synchronize()

    return product


def copy(size: int, device: Device) -> Callable[[], None]:
    """See `Instruments.copy`."""
    source = torch.ones(size // 4, device=torch_device(device))
    target = torch.empty_like(source)

    def copied() -> None:
        target.copy_(source)
        if source.is_cuda:
            torch.cuda.synchronize()

    return copied
