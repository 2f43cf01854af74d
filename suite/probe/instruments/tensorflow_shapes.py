"""Which products and convolutions a call takes in TensorFlow, with the shapes and types of what is executed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from suite.harness.implementation import Device
from suite.probe.instruments.tensorflow_attributes import plain
from suite.probe.instruments.tensorflow_counting import DTYPES, Shape, labelled, run_eagerly, sizes
from suite.probe.kernels.problems import BY_INPUT, BY_WEIGHT, FORWARD, Convolution, MatrixProduct, Pair, Problem

# Where an operation's images and filters are: among its inputs, or -1 for its output
CONVOLUTIONS = {
    "Conv2D": (FORWARD, 0, 1),
    "Conv2DBackpropInput": (BY_INPUT, -1, 1),
    "Conv2DBackpropFilter": (BY_WEIGHT, 0, -1),
    "DepthwiseConv2dNative": (FORWARD, 0, 1),
    "DepthwiseConv2dNativeBackpropInput": (BY_INPUT, -1, 1),
    "DepthwiseConv2dNativeBackpropFilter": (BY_WEIGHT, 0, -1),
}


def called(call: Callable[[], object], device: Device) -> Counter[tuple[Problem, str]]:
    """See `Instruments.called`."""
    names = {dtype: name for name, dtype in DTYPES.items() if name != "tf32" or name == device.precision}
    found: Counter[tuple[Problem, str]] = Counter()

    def operation(kind: str, inputs: Sequence[Any], attributes: Sequence[Any], outputs: Sequence[Any], *_: Any) -> None:
        if kind in PRODUCTS or kind in CONVOLUTIONS:
            shapes = [tuple(each.shape) for each in (*inputs, outputs[0])]
            problem = PRODUCTS.get(kind, _convolution)(kind, shapes, plain(attributes))
            if problem and (precision := names.get(outputs[0].dtype)):
                found[problem, precision] += 1

    with run_eagerly(operation):
        call()
    return found


def _product(kind: str, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> MatrixProduct:
    left, right = (bool(attributes.get(f"transpose_{a}", attributes.get(f"adj_{x}"))) for a, x in ("ax", "by"))
    *many, m, n = shapes[-1]
    return MatrixProduct(m, n, shapes[0][-2 if left else -1], (left, right), prod(many))


def _einsum(kind: str, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> MatrixProduct | None:
    """The batched product that TensorFlow makes of an einsum; None for a single operand."""
    operands, made = labelled(attributes["equation"], shapes[:-1]), attributes["equation"].partition("->")[2]
    if len(operands) == 1:
        return None
    every = sizes(operands)

    def size(labels: set[str]) -> int:
        return prod(every[each] for each in labels)

    left, right = map(set, operands)
    out = {each for each in every if each[:3] in made}
    shared = left & right
    return MatrixProduct(size(left - right), size(right - left), size(shared - out), batch=size(shared & out))


PRODUCTS = {"MatMul": _product, "BatchMatMulV2": _product, "Einsum": _einsum}


def _convolution(kind: str, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Convolution:
    """The convolution of images [batch, height, width, channels], or channels first, with filters [..., in, out]."""
    direction, images, filters = CONVOLUTIONS[kind]
    first, deep = (2, 1) if attributes.get("data_format") == "NCHW" else (1, 3)  # which axes are height and channels
    both = slice(first, first + 2)
    (*window, inner, outer), size, channels = shapes[filters], shapes[images][both], shapes[images][deep]
    steps: list[Sequence[int]] = [attributes.get(name) or (1, 1, 1, 1) for name in ("strides", "dilations")]
    stride, dilation = (_two(each[both]) for each in steps)
    padding = attributes["padding"]
    if padding == "EXPLICIT":
        around = attributes["explicit_paddings"][2 * first :]
        pads = (_two(around[:2]), _two(around[2:4]))
    else:
        axes = zip(size, window, stride, dilation, strict=True)
        high, wide = (_same(*each) if padding == "SAME" else (0, 0) for each in axes)
        pads = (high, wide)
    depthwise = kind.startswith("Depthwise")
    return Convolution(
        batch=shapes[images][0],
        channels=channels,
        size=_two(size),
        filters=inner * outer if depthwise else outer,
        window=_two(window),
        stride=stride,
        padding=pads,
        dilation=dilation,
        groups=channels if depthwise else channels // inner,
        direction=direction,
    )


def _same(size: int, window: int, stride: int, dilation: int) -> Pair:
    """What padding="SAME" puts before and after an axis (tf.nn, "Notes on padding")."""
    whole = max((-(-size // stride) - 1) * stride + dilation * (window - 1) + 1 - size, 0)
    return whole // 2, whole - whole // 2


def _two(values: Sequence[int]) -> Pair:
    first, second = values
    return int(first), int(second)
