"""The calls of a step in TensorFlow: each operation that is executed when its graphs are run eagerly.

The update's operations are like all others. Operations of the backward pass whose results nobody uses are not calls,
because a graph leaves them out: a first layer's gradient by its input, for example. Shape computations are left to the
graph: small integer tensors are values in a brick, and the operations that compute them are not calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any
from unittest import mock

import tensorflow as tf

from suite.bricks import arguments
from suite.bricks.brick import Call, Tensor
from suite.bricks.chaining import used_by
from suite.bricks.frameworks.tensorflow_between import between
from suite.bricks.frameworks.tensorflow_table import FUNCTIONS, attributes_of, inputs_of
from suite.bricks.recorded import BATCHES, Called, Recorded
from suite.errors import UserError
from suite.probe.instruments.tensorflow_attributes import plain
from suite.probe.instruments.tensorflow_counting import device_name, run_eagerly
from suite.probe.instruments.tensorflow_models import POLICIES, Model
from suite.probe.subject import SEED, Subject
from suite.probe.workload import Training, Workload

READ = "ReadVariableOp"
ALIASES = ("Identity", "StopGradient", "PreventGradient", "EnsureShape", "Snapshot")
TIMED = 3  # steps whose `between` is timed
SMALL = 64  # integers that are taken for a shape or indices, and so for values of a brick
KEYS = "StatelessRandomGetKeyCounter"  # whose seed is no value of a brick: any takes as long
NOTHING = "VarIsInitializedOp", "NoOp", "Assert"


class Recorder:
    """Records each executed operation. Tensors are known by their `_id`, which TensorFlow never uses twice."""

    def __init__(self) -> None:
        self.recorded = Recorded()
        self.numbers: dict[int, int] = {}
        self.made: set[int] = set()
        self.backward = False
        self.backward_places: set[int] = set()
        self.used: set[int] = set()  # by operations that are not calls

    def __call__(
        self, kind: str, inputs: Sequence[Any], attributes: Any, outputs: Sequence[Any], name: Any, graph: Any
    ) -> None:
        """Record one operation, or that it is left out."""
        if kind in NOTHING or graph is not None:
            return
        if outputs and all(_is_small(each) for each in outputs):
            self._uses(inputs)
            return
        try:
            self._take(kind, inputs, attributes, outputs)
        except ValueError:
            self.made |= {each._id for each in outputs}
            self._uses(inputs)
            self.recorded.left_out[kind] += 1

    @contextmanager
    def told(self) -> Iterator[None]:
        """Run graphs eagerly and record their operations; then drop those of the backward pass that nobody uses."""
        gradient = tf.GradientTape.gradient

        def backward(*args: Any, **keywords: Any) -> Any:
            self.backward = True
            try:
                return gradient(*args, **keywords)
            finally:
                self.backward = False

        with mock.patch.object(tf.GradientTape, "gradient", backward), run_eagerly(self):
            yield
        kept, used = list[Called](), set(self.used)
        for place, called in reversed([*enumerate(self.recorded.calls)]):
            if place not in self.backward_places or used.intersection(called.made):
                kept.append(called)
                used.update(used_by(called.call))
        self.recorded.calls = kept[::-1]

    def _take(self, kind: str, inputs: Sequence[Any], attributes: Any, outputs: Sequence[Any]) -> None:
        """Record one operation. Raises ValueError if a brick cannot hold it."""
        if kind == READ:
            place = -inputs[0]._id  # a variable's value has one number, however often it is read
            self.numbers[outputs[0]._id] = self.numbers.setdefault(place, self._number(outputs[0]))
        elif kind in ALIASES:
            self.numbers[outputs[0]._id] = self._number(inputs[0])
            if inputs[0]._id in self.made:
                self.made.add(outputs[0]._id)
        else:
            call = self._call(kind, inputs, attributes)
            self.made |= {each._id for each in outputs}
            made = tuple(self._number(each, anew=True) for each in outputs)
            if self.backward:
                self.backward_places.add(len(self.recorded.calls))
            self.recorded.calls.append(Called(call, made, gradient=False))

    def _uses(self, inputs: Sequence[Any]) -> None:
        self.used |= {self.numbers[each._id] for each in inputs if each._id in self.numbers}

    def _call(self, kind: str, inputs: Sequence[Any], attributes: Sequence[Any]) -> Call:
        """The operation as a brick's call. Raises ValueError if a brick cannot hold it."""
        if kind not in FUNCTIONS:
            raise ValueError(f"{kind} is not in the table")
        many = sum(is_list for _, is_list in inputs_of(kind))
        rest, listed = [self._seed() if kind == KEYS else self._input(each) for each in inputs], list[Any]()
        if many > 1:
            raise ValueError("two lists of tensors")
        length = len(rest) - len(inputs_of(kind)) + 1
        for _, is_list in inputs_of(kind):
            listed.append([rest.pop(0) for _ in range(length)] if is_list else rest.pop(0))
        types, given = attributes_of(kind), plain(attributes)
        keywords = {name: _attribute(types[name], value) for name, value in given.items() if name in types}
        return Call(op=kind, arguments=tuple(listed), keywords=keywords)

    def _input(self, tensor: Any) -> Any:
        if tensor.dtype != tf.resource and _is_small(tensor):
            return [{"dtype": tensor.dtype.name}, tensor.numpy().tolist()]
        return {"tensor": self._number(tensor)}

    def _seed(self) -> Any:
        """A tensor that stands for a seed: of a value TensorFlow would compute the keys beforehand."""
        self.recorded.tensors.append(Tensor(shape=(2,), dtype="int32", fresh=True))
        return {"tensor": len(self.recorded.tensors) - 1}

    def _number(self, tensor: Any, anew: bool = False) -> int:
        if anew or tensor._id not in self.numbers:
            described = _described(tensor, tensor._id in self.made)
            self.numbers[tensor._id] = len(self.recorded.tensors)
            self.recorded.tensors.append(described)
        return self.numbers[tensor._id]


def _is_small(tensor: Any) -> bool:
    return tensor.dtype in (tf.int32, tf.int64) and prod(tensor.shape) <= SMALL and len(tensor.shape) <= 2


def _described(tensor: Any, fresh: bool) -> Tensor:
    """The tensor as a brick describes it. Raises ValueError for a type that bricks do not have."""
    if tensor.dtype == tf.resource:
        found = tensor._handle_data
        if found is None or not found.is_set or len(found.shape_and_type) != 1:
            raise ValueError("a resource that is no variable")
        (held,) = found.shape_and_type
        shape = tuple(each.size for each in held.shape.dim)
        return Tensor(shape=shape, dtype=tf.as_dtype(held.dtype).name, variable=True)
    below = int(tensor.numpy().max()) + 1 if tensor.dtype.is_integer and prod(tensor.shape) > 0 else 1
    return Tensor(
        shape=tuple(tensor.shape), dtype=tensor.dtype.name, fresh=fresh, below=min(max(below, 1), (1 << 31) - 1)
    )


def _attribute(kind: str, value: Any) -> Any:
    """The attribute as a brick holds it. Raises ValueError for a kind that a brick cannot hold."""
    match kind:
        case "type":
            return {"dtype": tf.as_dtype(value).name}
        case "list(type)":
            return [{"dtype": tf.as_dtype(each).name} for each in value]
        case "shape":
            return list(tf.TensorShape(value).as_list())
        case "float":
            return arguments.number(float(value))
        case "func" | "tensor" | "list(func)":
            raise ValueError(f"an attribute of kind {kind}")
    if isinstance(value, list | tuple):
        return [each.decode() if isinstance(each, bytes) else each for each in value]
    return value


def record(subject: Subject, network: Callable[[], Any] | None = None) -> Sequence[Recorded]:
    """See `Framework.record`. A model's step is computed too: TensorFlow reports operations only as they run."""
    conditions, found = subject.conditions, list[Recorded]()
    batches = BATCHES if conditions.task and conditions.mode == "train" else 1
    with subject.instruments.apart():
        workload: Workload = _own(subject, network) if network else subject.build()
        workload.ready(1 + batches)
        workload.run(1)
        for index in range(batches):
            recorder = Recorder()
            recorder.recorded.at = workload.go_to(index) if isinstance(workload, Training) else None
            with recorder.told():
                workload.run(1)
            found.append(recorder.recorded)
    if conditions.task:
        workload = subject.build()
    workload.ready(1)
    workload.run(1)
    found[0].between = between(workload, 1 if conditions.task and conditions.mode == "infer" else TIMED)
    return found


def _own(subject: Subject, network: Callable[[], Any]) -> Model:
    """The user's own network, in the device's precision. Raises UserError if its pictures are not of size=."""
    import keras

    conditions, device, before = subject.conditions, subject.device, keras.config.dtype_policy()
    try:
        keras.config.set_dtype_policy(POLICIES[device.precision])
        with tf.device(device_name(device)):
            made = Model(network(), conditions, device, SEED)
    finally:
        keras.config.set_dtype_policy(before)
    size, (height, width) = conditions.size, made.images.shape[1:3]
    if size and (height, width) != (size, size):
        raise UserError(
            f"size={size}: this keras.Model takes pictures of {height} x {width}: leave out size=, or change build()"
        )
    return made
