"""The operations that TensorFlow's profiler saw, and when they ran."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

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
    events = [event for file in folder.rglob("*.xplane.pb") for event in _events(file, gpu)]
    if not events:
        raise UserError(
            "TensorFlow's profiler tells no time of any operation: on a GPU CUPTI does, if no other profiler has it"
        )
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


def _events(file: Path, gpu: bool) -> Iterator[Event]:
    """The operations in a profile."""
    space = xplane_pb2.XSpace()
    space.ParseFromString(file.read_bytes())
    for plane in space.planes:
        if not plane.name.startswith("/device:GPU" if gpu else "/host:CPU"):
            continue
        stats = {number: each.name for number, each in plane.stat_metadata.items()}
        for since, event in ((line.timestamp_ns, event) for line in plane.lines for event in line.events):
            full = plane.event_metadata[event.metadata_id].name
            if gpu:  # a kernel, which tells its operation
                told = [each for each in event.stats if stats[each.metadata_id] == "tf_op"]
                full = stats.get(told[0].ref_value, told[0].str_value) if told else ""
            name, colon, kind = full.rpartition(":")
            if colon and not name.endswith(":") and kind.isidentifier() and not HOLDING.search(kind):
                start = since / 1e9 + event.offset_ps / 1e12
                yield Event(INLINED.sub("", name), kind, start, event.duration_ps / 1e12)
