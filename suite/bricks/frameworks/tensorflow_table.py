"""The operations of TensorFlow that a brick may call, by name: a closed table, and the only way from a name to code."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_registry

KINDS = """
Abs Add AddN AddV2 All Any ArgMax ArgMin AssignAddVariableOp AssignSubVariableOp AssignVariableOp AvgPool AvgPoolGrad
BatchMatMulV2 BiasAdd BiasAddGrad BroadcastTo Cast Ceil ClipByValue ConcatV2 Conv2D Conv2DBackpropFilter
Conv2DBackpropInput Cos CropAndResize Cumsum DepthToSpace DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter
DepthwiseConv2dNativeBackpropInput Einsum Elu EluGrad Equal Erf Erfc Exp ExpandDims Expm1 Fill Floor FloorDiv FloorMod
FusedBatchNormGradV3 FusedBatchNormV3 GatherNd GatherV2 Greater GreaterEqual InvGrad IsFinite L2Loss LeakyRelu
LeakyReluGrad Less LessEqual LinSpace Log Log1p LogSoftmax LogicalAnd LogicalNot LogicalOr MatMul MatrixBandPart Max
MaxPool MaxPoolGrad Maximum Mean Min Minimum MirrorPad MirrorPadGrad Mul MulNoNan Neg NotEqual OneHot OnesLike Pack Pad
PadV2 Pow Prod RandomStandardNormal RandomUniform RandomUniformInt Range RealDiv Reciprocal Relu Relu6 Relu6Grad
ReluGrad Reshape ResizeBilinear ResizeBilinearGrad ResizeNearestNeighbor ResizeNearestNeighborGrad
ResourceApplyGradientDescent ResourceApplyKerasMomentum ResourceApplyMomentum ReverseV2 Roll Round Rsqrt RsqrtGrad
ScatterNd Select SelectV2 Selu SeluGrad Sigmoid SigmoidGrad Sign Sin Slice Softmax SoftmaxCrossEntropyWithLogits
Softplus SoftplusGrad Softsign SpaceToDepth SparseSoftmaxCrossEntropyWithLogits Split SplitV Sqrt SqrtGrad Square
SquaredDifference Squeeze StatelessRandomGetKeyCounter StatelessRandomNormalV2 StatelessRandomUniformV2
StatelessRandomUniformFullIntV2 StatelessRandomUniformIntV2 StatelessTruncatedNormalV2 StridedSlice StridedSliceGrad Sub
Sum Tan Tanh TanhGrad TensorScatterAdd TensorScatterUpdate Tile TopKV2 Transpose TruncatedNormal Unpack
UnsortedSegmentSum Where Xdivy ZerosLike
"""
FUNCTIONS: dict[str, Callable[..., Any]] = {
    kind: getattr(tf.raw_ops, kind) for kind in KINDS.split() if hasattr(tf.raw_ops, kind)
}


@cache
def names_of(kind: str) -> dict[str, str]:
    """The parameters of an operation's function, by the names of inputs and attributes in its definition.

    The two names differ for one at most.
    """
    defined = [name for name, _ in inputs_of(kind)] + list(attributes_of(kind))
    taken = [name for name in inspect.signature(FUNCTIONS[kind]).parameters if name != "name"]
    others = [name for name in taken if name not in defined]
    return {name: name if name in taken else others[0] for name in defined if name in taken or others}


def inputs_of(kind: str) -> list[tuple[str, bool]]:
    """The name of each input of an operation, and whether it is a list of tensors."""
    return [(each.name, bool(each.number_attr or each.type_list_attr)) for each in op_def_registry.get(kind).input_arg]


def attributes_of(kind: str) -> dict[str, str]:
    """The type of each attribute of an operation, by name; without those that its inputs determine."""
    definition = op_def_registry.get(kind)
    decided = {
        name for each in definition.input_arg for name in (each.type_attr, each.number_attr, each.type_list_attr)
    }
    return {each.name: each.type for each in definition.attr if each.name not in decided}
