"""Attributes of TensorFlow's operations: plain, or to execute one again, as it was or in float64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import AttrValue
from tensorflow.python.framework import op_def_registry

Attributes = tuple[Any, ...]  # name, value, name, value, and so on


def plain(attributes: Sequence[Any]) -> dict[str, Any]:
    """An operation's attributes by name, from the sequence name, value, name, value, ... that a callback is given."""
    return {name: _value(value) for name, value in _named(attributes)}


def whole(kind: str, attributes: Sequence[Any] | None) -> Attributes:
    """All attributes: those that were given, if any, and the defaults of the others, which gradients ask for."""
    definition: Any = op_def_registry.get(kind)
    given = {name: value for name, value in _named(attributes or ()) if value is not None}
    usual = {each.name: _default(each) for each in definition.attr if each.HasField("default_value")}
    return tuple(part for name, value in (usual | given).items() for part in (name, value))


def exact(kind: str, attributes: Attributes) -> Attributes:
    """The attributes with float64 for each floating-point type."""
    definition: Any = op_def_registry.get(kind)
    types = {each.name for each in definition.attr if each.type in ("type", "list(type)")}
    return tuple(
        part for name, value in _named(attributes) for part in (name, _exact(value) if name in types else value)
    )


def double(tensor: tf.Tensor) -> tf.Tensor:
    """The tensor in float64 where it holds floating-point numbers, else itself."""
    return tf.cast(tensor, tf.float64) if tensor.dtype.is_floating else tensor


def _named(attributes: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    return zip(attributes[::2], attributes[1::2], strict=True)


def _value(value: Any) -> Any:
    if isinstance(value, AttrValue):  # while a function is traced
        value = getattr(value, value.WhichOneof("value") or "s")
    return value.decode() if isinstance(value, bytes) else value


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
