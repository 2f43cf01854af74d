"""Run a brick in TensorFlow from its file alone, as a graph, which may fuse the operations of a chain.

Its inputs are as in a model's graph: a fresh tensor is an operation's result that nobody else uses, weights are read
from a variable. A small brick runs several times in a graph, because once is shorter than the clock can measure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil, prod
from typing import Any

import numpy as np
import tensorflow as tf

from suite.bricks.brick import LEAST_HELD, Brick, Call, Tensor
from suite.bricks.frameworks.tensorflow_clock import Clocked, Values
from suite.bricks.frameworks.tensorflow_table import FUNCTIONS, inputs_of, names_of
from suite.errors import UserError, unknown
from suite.harness.implementation import Device
from suite.probe.instruments.tensorflow_counting import device_name, number_type
from suite.probe.record import one_line

NOISE = 1 << 16  # numbers that are drawn; a larger tensor repeats them
FEW = 1 << 18  # bytes that a small brick takes and makes at most, over all its repeats in a graph
MOST_REPEATS = 16
FORWARD = {"MaxPoolGrad": "MaxPool"}  # oneDNN runs such a gradient, in a tenth of the time, only behind its forward


class Runner:
    """See `frameworks.Runner`."""

    def __init__(self, brick: Brick, device: Device, repeats: int = 1) -> None:
        self.brick, self.device = brick, device_name(device)
        number_type(device)
        self.calls = [_compiled(call, len(brick.tensors)) for call in brick.calls]
        self.forwards = list(_forwards(brick))
        self.bytes = brick.bytes
        with tf.device(self.device):
            self.sources = [self._noise(each) for each in brick.tensors]
            self.twins: Values = []
            self.given = self.sources
            self.step = Clocked(self.ready, self.forward, repeats, self.sources, self.device)

    def prepare(self, twin: bool = False) -> None:
        """See `frameworks.Runner`. Fresh tensors are made within the graph."""
        if twin and not self.twins:
            with tf.device(self.device):
                self.twins = [self._noise(each) for each in self.brick.tensors]
        self.given = self.twins if twin else self.sources

    def done(self) -> None:
        """See `frameworks.Runner`. The graph keeps nothing."""

    def run(self) -> float:
        """See `frameworks.Runner`."""
        with tf.device(self.device):
            return self.step.seconds(self.given)

    def ready(self, given: Values) -> Values:
        """The brick's inputs: fresh tensors are copied, and results of a `FORWARD` operation are made by it."""
        values = [
            tf.raw_ops.DeepCopy(x=source) if described.fresh and not described.variable else source
            for described, source in zip(self.brick.tensors, given, strict=True)
        ]
        for made, forward in self.forwards:
            values[made] = forward(values)
        return values

    def forward(self, given: Values) -> Values:
        """The results of the last call, or the operation itself if it writes to a variable."""
        values = [
            each.value() if isinstance(each, tf.Variable) and not described.variable else each
            for described, each in zip(self.brick.tensors, given, strict=True)
        ]
        for call in self.calls:
            values.append(call(values))
        return _tensors(values[-1]) or [values[-1]]

    def _noise(self, described: Tensor) -> Any:
        """A tensor of floats from 0.5 to 1.5, valid for every operation, or of uniformly drawn integers or booleans."""
        random, dtype = np.random.default_rng(0), tf.as_dtype(described.dtype)
        drawn = random.random(min(NOISE, max(described.elements, 1)), np.float32)
        if dtype.is_floating:
            flat = tf.cast(drawn + np.float32(0.5), dtype)
        elif dtype == tf.bool:
            flat = tf.constant(drawn < 0.5)
        else:
            flat = tf.cast((drawn * described.below).astype(np.int64).clip(0, described.below - 1), dtype)
        many = prod(described.shape)
        made = tf.reshape(tf.tile(flat, [ceil(many / len(drawn))])[:many], described.shape)
        weight = not described.fresh and dtype.is_floating and described.shape
        return tf.Variable(made, trainable=False) if described.variable or weight else made


def runner(brick: Brick, device: Device, mode: str, room: int) -> Runner:
    """See `frameworks.Framework`. It is tried with shapes alone first, because a file may ask for anything."""
    bytes_ = tried(brick, device, mode, room)
    # A repeat would find its weights in the caches
    repeats = 1 if brick.held >= LEAST_HELD else max(1, min(MOST_REPEATS, FEW // max(bytes_, 1)))
    try:
        made = Runner(brick, device, repeats)
        made.prepare()
        made.run()
        return made
    except UserError:
        raise
    except Exception as error:  # whatever TensorFlow raises for arguments that do not fit
        raise UserError(f"{brick.name} cannot be run: {one_line(error)}") from error


def tried(brick: Brick, device: Device, mode: str, room: int) -> int:
    """See `frameworks.Framework`. Returns the bytes that the brick takes and makes, as its graph infers them."""
    if brick.bytes > room:
        raise UserError(f"its tensors take {brick.bytes:,} bytes; there is room for {room:,}")
    calls = [_compiled(call, len(brick.tensors)) for call in brick.calls]
    try:
        with tf.Graph().as_default():  # a placeholder is TensorFlow's word for a graph's input
            values: Values = [
                tf.compat.v1.get_variable(f"v{at}", each.shape, each.dtype, use_resource=True)
                if each.variable
                else tf.compat.v1.placeholder(each.dtype, each.shape)
                for at, each in enumerate(brick.tensors)
            ]
            for call in calls:
                values.append(call(values))
            results = [_tensors(value) for value in values[len(brick.tensors) :]]
            if not all(each.shape.is_fully_defined() for result in results for each in result[:1]):
                raise UserError("what it makes has no shape that is known before")
            # After its first result an operation may have outputs for its own use, as FusedBatchNormV3 does
            made = [each for result in results for each in result if each.shape.is_fully_defined()]
            for each in made:
                if prod(each.shape) * each.dtype.size > room:
                    raise UserError(f"it makes a tensor of more than {room:,} bytes")
            moved: int = brick.bytes + sum(prod(each.shape) * each.dtype.size for each in made)
            return moved
    except Exception as error:  # also whatever TensorFlow raises for arguments that do not fit
        raise UserError(f"{brick.name} cannot be run: {one_line(error)}") from error


def _tensors(value: Any) -> list[Any]:
    return [each for each in tf.nest.flatten(value) if isinstance(each, tf.Tensor)]


def _compiled(call: Call, given: int) -> Callable[[Values], Any]:
    """A call as a function of the values so far. Raises UserError for an operation that is not in the table."""
    function = FUNCTIONS.get(call.op)
    if function is None:
        raise unknown("operation", call.op, FUNCTIONS)
    names = inputs_of(call.op)
    if len(names) != len(call.arguments):
        raise UserError(f"{call.op} has {len(names)} inputs, not {len(call.arguments)}")
    known = names_of(call.op)
    if strange := sorted(call.keywords.keys() - known.keys()):
        raise unknown(f"attribute of {call.op}", strange[0], known)
    gets = {known[name]: _getter(each, given) for (name, _), each in zip(names, call.arguments, strict=True)}
    attributes = {known[name]: _attribute(value) for name, value in call.keywords.items()}
    return lambda values: function(**{name: get(values) for name, get in gets.items()}, **attributes)


def _forwards(brick: Brick) -> Iterator[tuple[int, Callable[[Values], Any]]]:
    """Yield the places of tensors that are results of a `FORWARD` operation, and the functions that make them."""
    for call in brick.calls:
        match FORWARD.get(call.op), call.arguments:
            case str(op), ({"tensor": _} as given, {"tensor": made}, *_):
                forward = Call(op=op, arguments=(given,), keywords=call.keywords)
                yield made, _compiled(forward, len(brick.tensors))


def _getter(argument: Any, given: int) -> Callable[[Values], Any]:
    match argument:
        case {"tensor": at}:
            return lambda values: values[at].handle if hasattr(values[at], "handle") else values[at]
        case {"output": [call, at]}:
            return lambda values: _tensors(values[given + call])[at]
        case [{"dtype": name}, value]:
            made = np.asarray(value, name)
            return lambda values: tf.constant(made)
        case list() | tuple():
            gets = [_getter(each, given) for each in argument]
            return lambda values: [get(values) for get in gets]
    raise UserError("an input of an operation is a tensor, or small whole numbers")


def _attribute(value: Any) -> Any:
    match value:
        case {"dtype": name}:
            return tf.as_dtype(name)
        case {"number": name}:
            return float(name)
        case list() | tuple():
            return [_attribute(each) for each in value]
    return value
