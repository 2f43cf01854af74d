"""The operations that TensorFlow's profiler saw, and when they ran."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tensorflow.tsl.profiler.protobuf import xplane_pb2

from suite.errors import UserError

HOLDING = re.compile(r"While|If|Case|PartitionedCall|^_(Arg|Retval|Send|Recv)|Const$|NoOp|Placeholder")
INLINED = re.compile(r".*(/_\d+|PartitionedCall(_\d+)?)/")  # precedes the names in a function that was inlined


class Event(NamedTuple):
    """An operation that was executed, and when, in seconds of the profiler's clock."""

    name: str
    kind: str
    start: float
    seconds: float


def seen(folder: Path, gpu: bool) -> list[Event]:
    """The operations in the profiles below a folder. Raises UserError where there is none."""
    events = list(_operations(folder, gpu))
    if not events:
        why = (
            "on a GPU CUPTI does, if no other profiler has it"
            if gpu
            else "a step that runs eagerly is not taken apart: make it a tf.function"
        )
        raise UserError(f"TensorFlow's profiler tells no time of any operation: {why}")
    return executions(events) if gpu else events


def executions(kernels: Sequence[Event]) -> list[Event]:
    """Merge kernels into executions of operations: an operation may take several kernels, one after another."""
    made: list[Event] = []
    for kernel in sorted(kernels, key=lambda each: each.start):
        if made and made[-1].name == kernel.name:
            made[-1] = made[-1]._replace(seconds=kernel.start + kernel.seconds - made[-1].start)
        else:
            made.append(kernel)
    return made


def divided(events: Sequence[Event]) -> list[float]:
    """Seconds of each event, with time shared by several divided among them; they add up to the time when any ran."""
    changes = sorted(each for event in events for each in ((event.start, 1), (event.start + event.seconds, -1)))
    running, spent, before = 0, 0.0, 0.0
    until: dict[float, float] = {}  # by each time, the seconds of an event that ran all along
    for time_, change in changes:
        spent += (time_ - before) / running if running else 0.0
        until[time_], before, running = spent, time_, running + change
    return [until[event.start + event.seconds] - until[event.start] for event in events]


def everything(folder: Path) -> Iterator[tuple[Any, Any, Event]]:
    """All that the profiles below a folder hold, by its whole name, with its plane and as the profiler has it."""
    for file in folder.rglob("*.xplane.pb"):
        space = xplane_pb2.XSpace()
        space.ParseFromString(file.read_bytes())
        for plane in space.planes:
            for since, it in ((line.timestamp_ns, it) for line in plane.lines for it in line.events):
                start, name = since / 1e9 + it.offset_ps / 1e12, plane.event_metadata[it.metadata_id].name
                yield plane, it, Event(name, "", start, it.duration_ps / 1e12)


def _operations(folder: Path, gpu: bool) -> Iterator[Event]:
    for plane, it, event in everything(folder):
        if not plane.name.startswith("/device:GPU" if gpu else "/host:CPU"):
            continue
        name, colon, kind = (_operation(plane, it) if gpu else event.name).rpartition(":")
        if colon and not name.endswith(":") and kind.isidentifier() and not HOLDING.search(kind):
            yield event._replace(name=INLINED.sub("", name), kind=kind)


def _operation(plane: Any, kernel: Any) -> str:
    """The operation that a kernel is of, or an empty string."""
    told = [each for each in kernel.stats if plane.stat_metadata[each.metadata_id].name == "tf_op"]
    return plane.stat_metadata[told[0].ref_value].name or told[0].str_value if told else ""
