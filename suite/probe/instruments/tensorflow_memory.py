"""What a step holds in memory in TensorFlow: the tensors of its graph, from their making to their last use.

Shapes come from the functions, which are traced for each shape that they are given, and times from the profiler; a size
that depends on values is recorded as the graph runs. A tensor that an operation writes in place counts beside the one
that it replaces, so the peak may come out too high. Neither the workspace of kernels is seen, nor a tensor that is kept
outside the graph, nor that a function or loop within the step reads a tensor that was made outside it.
"""

from __future__ import annotations

import gc
import tempfile
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import tensorflow as tf

from suite.harness.implementation import Device
from suite.probe.instruments.tensorflow_counting import told_of_operations
from suite.probe.instruments.tensorflow_profile import Event
from suite.probe.instruments.tensorflow_watch import Noted, Watched, identity
from suite.probe.tracing import Memory
from suite.probe.workload import Workload

NOTHING = {"ReadVariableOp", "Const"}  # their memory is a variable's, or the graph's
BEFORE = ("data", "forward", "loss")  # the backward pass


class Tracked:
    """See `Instruments.memory`."""

    def __init__(self, build: Callable[[], Workload], device: Device) -> None:
        self.sizes = Sizes()
        with fixed(), self.sizes.followed():
            self.watched, self.variables = built(build, device)

    def step(self) -> Memory:
        """What a step holds. A variable that no layer has is the optimizer's if the update reads it, else a buffer."""
        with tempfile.TemporaryDirectory() as folder, self.sizes.followed():
            seconds = self.watched.profiled(1, Path(folder))
            events = list(self.watched.events(Path(folder)))
        places, peak = self.watched.places, held(events, self.sizes.found)
        places.called()
        trained, read = {v for owned in places.parameters.values() for v in owned}, places.updated()
        sizes = {identity(each): each.shape.num_elements() * each.dtype.size for each in self.variables}
        kinds: Counter[str] = Counter()
        for variable, size in sizes.items():
            own = "optimizer" if variable in read and variable not in places.layers else "buffers"
            kinds["parameters" if variable in trained else own] += size
        return Memory(
            seconds=seconds,
            parameters=kinds["parameters"],
            buffers=kinds["buffers"],
            optimizer=kinds["optimizer"],
            gradients=peak["gradients"],
            saved=peak["saved"],
            temporary=peak["temporary"],
        )


class Sizes:
    """The bytes of tensors whose shapes depend on values, by name, as they were last made."""

    def __init__(self) -> None:
        self.found: dict[str, int] = {}

    def followed(self) -> AbstractContextManager[None]:
        """Context for tracing functions: each such tensor is followed by an operation that records its size."""
        return told_of_operations(self._note)

    def _note(
        self, kind: str, inputs: Sequence[Any], attributes: Any, outputs: Sequence[Any], name: Any, graph: Any
    ) -> Sequence[Any]:
        for each in outputs if graph else ():
            if not each.shape.is_fully_defined():
                # Not of an identity itself: one that a function returns waits for this operation
                whole = inputs[0] if kind == "Identity" else each
                tf.numpy_function(partial(self._found, each.name, each.dtype.size), [tf.size(whole)], [])
        return outputs

    def _found(self, name: str, size: int, number: Any) -> None:
        self.found[name] = size * int(number)


def held(events: Sequence[tuple[Event, Noted]], sizes: Mapping[str, int]) -> Counter[str]:
    """Bytes by kind when the tensors that operations make are most; `sizes` has those that depend on values."""
    runs: dict[str, list[float]] = defaultdict(list)  # when each operation began: a step may run a function often
    for event, _ in sorted(events, key=lambda each: each[0].start):
        runs[event.name].append(event.start)

    def run(name: str, at: float) -> tuple[str, int]:
        return name, bisect_right(runs[name.rpartition(":")[0]], at)

    uses: dict[tuple[str, int], list[tuple[float, str]]] = defaultdict(list)  # until when, and in which phase
    for event, noted in events:
        for name in noted.given:
            uses[run(name, event.start)].append((event.start + event.seconds, noted.phase))
    changes: list[tuple[float, int, str]] = []
    for event, noted in events:
        if noted.kind in NOTHING:
            continue
        for number, known in enumerate(noted.made):
            name = f"{event.name}:{number}"
            size = sizes[name] if known is None else known
            used = uses[run(name, event.start)]
            phases, kind = {phase for _, phase in used}, "temporary"
            if noted.phase in BEFORE and "backward" in phases:
                kind = "saved"
            elif noted.phase == "backward" and "update" in phases:
                kind = "gradients"
            last = max([event.start + event.seconds, *(until for until, _ in used)])
            changes += [(event.start, size, kind), (last, -size, kind)]
    now: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for _, size, kind in sorted(changes):
        now[kind] += size
        if now.total() > peak.total():
            peak = now.copy()
    return peak


@contextmanager
def fixed() -> Iterator[None]:
    """Context in which functions are made without a signature, so that each shape that they are given is traced."""
    function = tf.function

    def traced_for_each(func: Any = None, input_signature: Any = None, **keywords: Any) -> Any:
        return function(func, **keywords)

    with mock.patch.object(tf, "function", traced_for_each):
        yield


memory = Tracked


def built(build: Callable[[], Workload], device: Device) -> tuple[Watched, list[Any]]:
    """What `build` makes, built to be watched, and the variables that are alive since."""
    before = _variables()  # kept meanwhile, so that no variable gets the id of one that is gone
    watched, known = Watched(build, device), set(map(id, before))
    return watched, [each for each in _variables() if id(each) not in known]


def _variables() -> list[Any]:
    """All variables that are alive. Checks types, because isinstance fails for a weak proxy whose object is gone."""
    gc.collect()
    return [each for each in gc.get_objects() if issubclass(type(each), tf.Variable)]
