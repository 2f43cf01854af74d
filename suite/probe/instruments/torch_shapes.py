"""Which products and convolutions a call takes in PyTorch, with the shapes and types that the dispatcher sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from suite.harness.implementation import Device
from suite.probe.instruments.torch_counting import DTYPES, unfused
from suite.probe.instruments.torch_operators import Operators
from suite.probe.kernels.problems import BY_INPUT, BY_WEIGHT, FORWARD, Convolution, MatrixProduct, Pair, Problem

aten = torch.ops.aten
PRODUCTS = {aten.mm: 0, aten.bmm: 0, aten.addmm: 1, aten.baddbmm: 1}  # and which argument is the first factor


class Shapes(Operators):  # type: ignore[no-untyped-call]
    """Notes each product and convolution, and leaves all calls unchanged."""

    def __init__(self, device: Device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names = {dtype: name for name, dtype in DTYPES.items() if name != "tf32" or name == device.precision}
        self.found: Counter[tuple[Problem, str]] = Counter()

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator."""
        result = func(*args, **kwargs)
        if func._overloadpacket in PRODUCTS:
            left, right = args[PRODUCTS[func._overloadpacket] :][:2]
            if left.layout == right.layout == torch.strided:  # else it is sparse, and none of these kinds
                self._note(left, [_product(left, right)])
        elif func._overloadpacket is aten.convolution:
            self._note(args[0], _convolutions(args[0], args[1], args[3:9], [FORWARD]))
        elif func._overloadpacket is aten.convolution_backward:
            wanted = [each for each, asked in zip((BY_INPUT, BY_WEIGHT), args[10], strict=False) if asked]
            self._note(args[1], _convolutions(args[1], args[2], args[4:10], wanted))
        return result

    def _note(self, tensor: torch.Tensor, problems: Sequence[Problem] | Iterator[Problem]) -> None:
        if name := self.names.get(tensor.dtype):
            self.found.update((each, name) for each in problems)


def called(call: Callable[[], object], device: Device) -> Counter[tuple[Problem, str]]:
    """See `Instruments.called`."""
    with unfused(), Shapes(device) as shapes:
        call()
    found: Counter[tuple[Problem, str]] = shapes.found
    return found


def _product(left: torch.Tensor, right: torch.Tensor) -> MatrixProduct:
    *many, m, k = left.shape
    return MatrixProduct(m, right.shape[-1], k, (_lies(left), _lies(right)), *many)


def _lies(matrix: torch.Tensor) -> bool:
    """Whether a matrix lies transposed in memory: its columns, not its rows, are contiguous."""
    return matrix.stride(-1) != 1 and matrix.stride(-2) == 1


def _convolutions(
    images: torch.Tensor, filters: torch.Tensor, arguments: Sequence[Any], directions: Sequence[str]
) -> Iterator[Convolution]:
    """Convolutions over one or two axes; those over one get another of length 1, as oneDNN and cuDNN take them."""
    stride, padding, dilation, transposed, _, groups = arguments
    if transposed or images.dim() > 4:
        return
    high, wide = _pair(padding, 0)
    for direction in directions:
        yield Convolution(
            batch=images.shape[0],
            channels=images.shape[1],
            size=_pair(images.shape[2:], 1),
            filters=filters.shape[0],
            window=_pair(filters.shape[2:], 1),
            stride=_pair(stride, 1),
            padding=((high, high), (wide, wide)),
            dilation=_pair(dilation, 1),
            groups=groups,
            direction=direction,
        )


def _pair(sizes: Sequence[int], missing: int) -> Pair:
    return (sizes[0], sizes[1]) if len(sizes) == 2 else (missing, sizes[0])
