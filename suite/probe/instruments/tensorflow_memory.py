"""What a step holds in memory in TensorFlow: the tensors of its graph, from their making to their last use.

Shapes are those of the traced functions, which are traced for each shape that they are given, times those of the
profiler. A tensor that an operation writes over in place counts beside the one that it replaces, so that a peak may be
told too high. What kernels need within is not seen, nor that a function or loop within the step reads a tensor that was
made outside it.
"""

from __future__ import annotations

import gc
import tempfile
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import tensorflow as tf

from suite.errors import UserError
from suite.harness.implementation import Device
from suite.probe.instruments.tensorflow_watch import Event, Noted, Watched
from suite.probe.tracing import Memory
from suite.probe.workload import Workload

NOTHING = {"ReadVariableOp", "Const"}  # are a variable's, or the graph's, memory
BEFORE = ("data", "forward", "loss")  # the backward pass


class Tracked:
    """See `Instruments.memory`."""

    def __init__(self, build: Callable[[], Workload], device: Device) -> None:
        before = _variables()
        known = {id(each) for each in before}
        with fixed():
            self.watched = Watched(build, device)
        made = [each for each in _variables() if id(each) not in known]
        self.variables = sum(each.shape.num_elements() * each.dtype.size for each in made)

    def step(self) -> Memory:
        """What a step holds."""
        with tempfile.TemporaryDirectory() as folder:
            seconds = self.watched.profiled(1, Path(folder))
            events = list(self.watched.events(Path(folder)))
        peak, weights = held(events), self.watched.places.weights
        trained = {variable for owned in self.watched.places.parameters.values() for variable in owned}
        parameters = sum(size for variable, size in weights.items() if variable in trained)
        buffers = sum(weights.values()) - parameters
        return Memory(
            seconds=seconds,
            parameters=parameters,
            buffers=buffers,
            optimizer=max(0, self.variables - parameters - buffers),
            gradients=peak["gradients"],
            saved=peak["saved"],
            temporary=peak["temporary"],
        )


def held(events: Sequence[tuple[Event, Noted]]) -> Counter[str]:
    """Bytes by kind when the tensors that the operations make are most. Raises UserError where a shape is not known."""
    if unknown := [noted.kind for _, noted in events if noted.made is None]:
        raise UserError(
            f"how much {unknown[0]} makes depends on its values, and TensorFlow's graphs tell memory by shapes that "
            "are known beforehand: pad it to a fixed shape, or look at the same with framework=torch"
        )
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
        for number, size in enumerate(noted.made or ()):
            used = uses[run(f"{event.name}:{number}", event.start)]
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
    """Functions that are made meanwhile take no signature: they are traced for the shapes that they are given."""
    function = tf.function

    def traced_for_each(func: Any = None, input_signature: Any = None, **keywords: Any) -> Any:
        return function(func, **keywords)

    with mock.patch.object(tf, "function", traced_for_each):
        yield


def memory(build: Callable[[], Workload], device: Device) -> Tracked:
    """See `Instruments.memory`."""
    return Tracked(build, device)


def _variables() -> list[Any]:
    """Those that are alive. By type, for a weakly referenced object that is gone cannot be asked what it is."""
    gc.collect()
    return [each for each in gc.get_objects() if issubclass(type(each), tf.Variable)]
