"""Attributes with which TensorFlow executes an operation again, as it was or in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_registry

Attributes = tuple[Any, ...]  # name, value, name, value, and so on


def whole(kind: str, attributes: Sequence[Any] | None) -> Attributes:
    """All attributes: those that were given, if any, and the defaults of the others, which gradients ask for."""
    definition: Any = op_def_registry.get(kind)
    attributes = attributes or ()
    named = zip(attributes[::2], attributes[1::2], strict=True)
    given = {name: value for name, value in named if value is not None}
    usual = {each.name: _default(each) for each in definition.attr if each.HasField("default_value")}
    return tuple(part for name, value in (usual | given).items() for part in (name, value))


def exact(kind: str, attributes: Attributes) -> Attributes:
    """The attributes with float64 for each floating-point type."""
    definition: Any = op_def_registry.get(kind)
    types = {each.name for each in definition.attr if each.type in ("type", "list(type)")}
    named = zip(attributes[::2], attributes[1::2], strict=True)
    return tuple(part for name, value in named for part in (name, _exact(value) if name in types else value))


def double(tensor: tf.Tensor) -> tf.Tensor:
    """The tensor in float64 where it holds floating-point numbers, else itself."""
    return tf.cast(tensor, tf.float64) if tensor.dtype.is_floating else tensor


def _exact(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_exact(each) for each in value]
    return tf.float64.as_datatype_enum if tf.as_dtype(value).is_floating else value


def _default(attribute: Any) -> Any:
    kind = attribute.default_value.WhichOneof("value")
    value = getattr(attribute.default_value, kind)
    return (
        [each for field in (value.i, value.s, value.f, value.b, value.type) for each in field]
        if kind == "list"
        else value
    )
