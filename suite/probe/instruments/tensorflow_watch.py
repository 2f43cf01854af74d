"""Watch a workload in TensorFlow: note each operation as its function is traced, then time it with the profiler.

XLA fuses nothing meanwhile, and graphs are executed as they were traced.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import keras
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction

from suite.errors import UserError
from suite.harness.implementation import Device
from suite.probe.instruments.tensorflow_counting import apart, counted, multiplies, told_of_operations
from suite.probe.instruments.tensorflow_profile import Event, divided, seen
from suite.probe.tracing import MOST_TRACED, Call, Phases, Trace, sums
from suite.probe.workload import Workload

SAME = {"Identity", "IdentityN", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "PreventGradient"}
REFERRED = {"ReadVariableOp", "AssignVariableOp"}  # hand on a tensor whose numbers stay where they are
CHANGED = {"AssignAddVariableOp", "AssignSubVariableOp"}  # read and write as much of a variable as they are given
PICKED = {"GatherV2", "GatherNd", "Slice", "StridedSlice"}  # read as much of the first tensor as they make
WORKSPACE = ("FusedBatchNormV3", 5)  # the output that cuDNN's kernel sizes as it needs, and a CPU's leaves empty
GRADIENT = "gradient_tape/"
WITHIN = re.compile(r"(.*/)gradients/(?=\1)")  # precedes the name of an operation in a cond or loop, in its gradient's
UNKNOWN = "unknown"  # the phase of operations that TensorFlow added itself


class Noted(NamedTuple):
    """An operation of a traced function: `made` has the bytes of its tensors, `given` the names of those it reads.

    A tensor of unknown shape has None. An operation of SAME makes 0: what reads its output is noted as reading its
    input.
    """

    kind: str
    shapes: str
    phase: str
    layer: str
    flops: int | None
    bytes: int | None
    made: tuple[int | None, ...]
    given: tuple[str, ...]


class Places:
    """Notes each operation that is traced: its phase, and the layer that was being called."""

    def __init__(self) -> None:
        self.noted: dict[str, Noted] = {}  # of the function that is being traced
        self.functions: dict[Any, dict[str, Noted]] = {}  # by their graphs, those that ran last at the end
        self.parameters: dict[str, dict[int, int]] = defaultdict(dict)
        self.layers: set[int] = set()  # the layers' variables
        self.phase = "data"
        self.stack: list[str] = []

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Context in which operations are noted as functions are traced."""
        call, gradient, places = keras.layers.Layer.__call__, tf.GradientTape.gradient, self
        run = ConcreteFunction._call_flat

        def followed_call(layer: Any, *args: Any, **keywords: Any) -> Any:
            if not tf.inside_function():
                return call(layer, *args, **keywords)
            within = places.phase == "backward"  # in which activations may be made again
            places.phase = "backward" if within else "forward"
            places.stack.append(layer.name)
            path = ".".join(places.stack)
            try:
                return call(layer, *args, **keywords)
            finally:
                places.parameters[path] |= {identity(v): prod(v.shape) for v in layer.trainable_variables}
                places.layers |= {identity(v) for v in layer.variables}
                places.stack.pop()
                places.phase = "backward" if within else "forward" if places.stack else "loss"

        def followed_gradient(*args: Any, **keywords: Any) -> Any:
            within, places.phase = places.phase == "backward", "backward"
            result = gradient(*args, **keywords)
            places.phase = "backward" if within else "update"
            return result

        def followed_run(function: Any, *args: Any, **keywords: Any) -> Any:
            if function.graph in places.functions:
                places.functions[function.graph] = places.functions.pop(function.graph)
            return run(function, *args, **keywords)

        unconverted = tf.autograph.experimental.do_not_convert
        with (
            told_of_operations(self._note),
            mock.patch.object(keras.layers.Layer, "__call__", unconverted(followed_call)),
            mock.patch.object(tf.GradientTape, "gradient", unconverted(followed_gradient)),
            mock.patch.object(ConcreteFunction, "_call_flat", followed_run),
        ):
            yield

    def _note(
        self, kind: str, inputs: Sequence[Any], attributes: Any, outputs: Sequence[Any], name: Any, graph: Any
    ) -> None:
        if graph is None or name is None:  # executed eagerly, or a constant that no operation of the graph makes
            return
        outer = graph
        while getattr(outer.outer_graph, "building_function", False):
            outer = outer.outer_graph
        if outer not in self.functions and not self.stack:
            self.phase = "data"
        self.noted = self.functions.setdefault(outer, {})
        # the sixth is a workspace of unknown shape
        read, written = (inputs[:5], outputs[:5]) if kind.startswith("FusedBatchNorm") else (inputs, outputs)
        tensors = [each for each in (*read, *written) if isinstance(each, tf.Tensor) and each.dtype != tf.resource]
        known = all(each.shape.is_fully_defined() for each in tensors)
        moved = _moved(kind, read, written) if known else None
        flops: int | None = 0
        if multiplies(kind):
            flops = counted(kind, inputs, attributes, outputs) if known else None
        nothing = [kind in SAME or (kind, n) == WORKSPACE or it.dtype == tf.resource for n, it in enumerate(outputs)]
        made = tuple(0 if none else _size(each) for none, each in zip(nothing, outputs, strict=True))
        sources = tuple(self._source(each.name) for each in inputs if isinstance(each, tf.Tensor))
        noted = Noted(kind, shapes_of(tensors), self.phase, self._layer(name), flops, moved, made, sources)
        self.noted[name] = _either(self.noted.get(name, noted), noted)

    def of(self, names: set[str]) -> dict[str, Noted]:
        """What was noted of the operations `names`. Functions share names: the one that has most of them counts.

        If two have as many, as one function traced for two shapes has, the one that ran last counts.
        """
        found: dict[str, Noted] = {}
        for noted in sorted(self.functions.values(), key=lambda noted: len(noted.keys() & names)):
            found |= noted
        return found

    def called(self) -> None:
        """Raise UserError where no layer was called: all would count as data, and weights as the optimizer's."""
        if not self.parameters:
            raise UserError(
                "no Keras layer is called in a tf.function of a step: nothing tells its phases and its weights"
            )

    def differentiated(self) -> None:
        """Raise UserError where no tape gave gradients: the backward pass and the update would count as loss."""
        if not any(each.phase == "backward" for noted in self.functions.values() for each in noted.values()):
            raise UserError("no tf.GradientTape gives gradients in a step: nothing tells its backward pass")

    def own_parameters(self) -> dict[str, int]:
        """How many parameters each layer itself has: a variable is of the innermost that has it."""
        owners: dict[int, str] = {}
        for path, its in sorted(self.parameters.items(), key=lambda layer: (len(layer[1]), -layer[0].count("."))):
            owners = dict.fromkeys(its, path) | owners
        return {
            path: sum(size for variable, size in its.items() if owners[variable] == path)
            for path, its in self.parameters.items()
        }

    def updated(self) -> set[int]:
        """The variables that an update reads."""
        found: set[int] = set()
        for graph, noted in self.functions.items():
            read = {name for each in noted.values() if each.phase == "update" for name in each.given}
            # a graph reads what it captures through placeholders, TensorFlow's word for its inputs
            found |= {id(handle) for handle, placeholder in graph.captures if placeholder.name in read}
        return found

    def _source(self, tensor: str) -> str:
        """The tensor whose values this one has: the input of the operation of SAME that made it, else itself."""
        name, _, number = tensor.rpartition(":")
        maker = self.noted.get(name)
        return maker.given[int(number)] if maker and maker.kind in SAME else tensor

    def _layer(self, name: str) -> str:
        """The layer that is being called; for an operation of a gradient, the layer of the operation differentiated."""
        if self.stack or GRADIENT not in name:
            return ".".join(self.stack)
        of = WITHIN.sub("", name.rpartition(GRADIENT)[2])
        while of:
            if noted := self.noted.get(of.removesuffix("_grad")):
                return noted.layer
            of = of.rpartition("/")[0]
        # its name has only the scope of its operation, as with a fused batch norm
        scope = name.rpartition(GRADIENT)[2].rpartition("/")[0] + "/"
        return min((each.layer for at, each in self.noted.items() if at.startswith(scope)), key=len, default="")


def _either(first: Noted, other: Noted) -> Noted:
    """What is known of an operation that has the name of one of another function within, as in the branches of a cond.

    Its tensors are the larger, since memory has to be told of either. A placeholder, a graph's input, never runs.
    """
    if other.kind == "Placeholder" or first.shapes == other.shapes:
        return first
    both = zip(first.made, other.made, strict=False)
    made = tuple(max((size for size in sizes if size is not None), default=None) for sizes in both)
    flops = first.flops if first.flops == other.flops else None
    return first._replace(shapes="", flops=flops, bytes=None, made=made)


def identity(variable: Any) -> int:
    """An id that a Keras variable, once built, shares with the TensorFlow variable within it."""
    return id(getattr(getattr(variable, "_value", variable), "handle", None))


def _size(tensor: tf.Tensor) -> Any:
    return tensor.shape.num_elements() * tensor.dtype.size if tensor.shape.is_fully_defined() else None


def _moved(kind: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> int:
    """Bytes that an operation reads and writes in tensors of known shapes, and in a variable that it changes."""
    if kind in SAME or kind in REFERRED:
        return 0
    given, made = (
        [_size(each) for each in tensors if isinstance(each, tf.Tensor) and each.dtype != tf.resource]
        for tensors in (inputs, outputs)
    )
    if kind in PICKED:
        given[0] = min(given[0], made[0])
    elif kind in CHANGED:
        made = 2 * given
    elif kind == "ResourceGather":
        given += made
    return int(sum(given) + sum(made))


def shapes_of(tensors: Sequence[tf.Tensor]) -> str:
    """The shapes of tensors in a line; `?` for what is not known of them."""
    return " ".join(map(_shape, tensors))


def _shape(tensor: tf.Tensor) -> str:
    if tensor.shape.rank is None:
        return "?"
    return "x".join("?" if size is None else str(size) for size in tensor.shape) or "1"


class Watched:
    """See `tracing.Watched`."""

    def __init__(self, build: Callable[[], Workload], device: Device) -> None:
        self.places, self.gpu = Places(), device.kind == "gpu"
        with apart(), self.places.followed():
            self.workload = build()
            self.workload.ready(1)
            self.workload.run(1)

    def phases(self, steps: int) -> Phases:
        """See `tracing.Watched`; a phase takes the sum of its operations."""
        steps = min(steps, MOST_TRACED)
        trace = self.trace(steps)
        self.places.called()
        self.places.differentiated()
        spent = {str(phase): each.seconds for phase, each in sums(trace.calls, lambda call: call.phase).items()}
        return Phases(steps, trace.seconds, spent)

    def trace(self, steps: int) -> Trace:
        """See `tracing.Watched`."""
        with tempfile.TemporaryDirectory() as folder:
            whole = self.profiled(steps, Path(folder))
            calls = list(self._calls(Path(folder)))
        return Trace(steps, whole, calls, self.places.own_parameters())

    def profiled(self, steps: int, folder: Path, run: Callable[[int], None] | None = None) -> float:
        """Seconds of `steps` steps, taken by `run` if it is given, while the profiler writes into a folder."""
        run = run or self.workload.run
        with apart(), self.places.followed():
            self.workload.ready(steps)
            self.workload.run(1)  # after others ran otherwise, TensorFlow prepares traced functions anew
            tf.profiler.experimental.start(str(folder))
            try:
                start = time.perf_counter()
                run(steps)
                return time.perf_counter() - start
            finally:
                tf.profiler.experimental.stop()

    def events(self, folder: Path) -> Iterator[tuple[Event, Noted]]:
        """The operations that the profiler saw, and what was noted of each."""
        events = seen(folder, self.gpu)
        noted = self.places.of({event.name for event in events})
        for event in events:
            yield event, noted.get(event.name) or Noted(event.kind, "", UNKNOWN, "", None, None, (), ())

    def _calls(self, folder: Path) -> Iterator[Call]:
        """The operations that the profiler saw; time in which several ran is divided among them."""
        events = list(self.events(folder))
        for (_, it), seconds in zip(events, divided([event for event, _ in events]), strict=True):
            yield Call(it.kind, it.shapes, it.phase, it.layer, seconds, it.flops, it.bytes)


watch = Watched
