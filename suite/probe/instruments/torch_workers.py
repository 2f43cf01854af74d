"""Workers that a probe starts on this machine, which all-reduce arrays as often as their leader says.

They use NCCL on GPUs, one each, and gloo on CPUs; the leader's words go by gloo, which leaves the GPU alone.
"""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from datetime import timedelta
from functools import cache

import torch
import torch.distributed as dist

from suite.errors import UserError
from suite.harness.implementation import Device
from suite.harness.workers import place as places
from suite.harness.workers import starting
from suite.harness.workers.place import Place
from suite.probe.instruments.torch_counting import torch_device, wait
from suite.probe.kernels.problems import AllReduce
from suite.probe.workload import Workload

MODULE = "suite.probe.instruments.torch_workers"
MEETING, PATIENCE = timedelta(minutes=5), timedelta(days=1)  # until all are there; while other problems are timed


class Member:
    """One of the workers; the leader starts the others, and ends them with its process."""

    def __init__(self, place: Place, kind: str = "") -> None:
        where = f"tcp://{place.host}:{place.port}"
        dist.init_process_group("gloo", where, MEETING, place.world_size, place.rank)
        self.words = dist.new_group(backend="gloo", timeout=PATIENCE)
        kind = "gpu" if self.told(kind == "gpu")[0] else "cpu"
        self.where = torch_device(Device(kind, "fp32", local_rank=place.local_rank))
        backend = dist.get_default_backend_for_device(self.where)
        self.group = self.words if kind == "cpu" else dist.new_group(backend=backend, timeout=PATIENCE)
        self.array = torch.empty(0)

    def told(self, *values: int) -> list[int]:
        """Send the leader's `values` to all workers, and return them."""
        said = torch.tensor(values)
        dist.broadcast(said, 0, self.words)
        return [int(each) for each in said]

    def prepare(self, numbers: int) -> None:
        """Make an array of so many numbers to be summed."""
        if len(self.array) != numbers:
            self.array = torch.zeros(numbers, device=self.where)

    def sum(self, times: int) -> None:
        """Sum the array over all workers `times` times; return when that is done."""
        for _ in range(times):
            dist.all_reduce(self.array, group=self.group)
        wait(self.where)


class Sums(Workload):
    """Sums over all workers over and over."""

    samples = 1

    def __init__(self, problem: AllReduce, leader: Member) -> None:
        self.numbers, self.leader = problem.numbers, leader
        self.algorithm: str = dist.get_backend(leader.group)

    def ready(self, steps: int) -> None:
        """See `Workload`."""
        self.leader.told(self.numbers, steps)
        self.leader.prepare(self.numbers)

    def run(self, steps: int) -> None:
        """See `Workload`."""
        self.leader.sum(steps)


def sums(problem: AllReduce, device: Device) -> Sums:
    """See `Instruments.kernel`; the first call starts the workers."""
    if problem.workers < 2:
        raise UserError("there is one accelerator, and nobody to sum with")
    return Sums(problem, _leader(problem.workers, device.kind))


@cache
def _leader(workers: int, kind: str) -> Member:
    stack = ExitStack()
    atexit.register(stack.close)
    place, processes = stack.enter_context(starting.started(Place(), workers, MODULE))
    for process in processes:
        stack.callback(process.kill)  # which may be in a sum that this one has left
    return Member(place, kind)


def _follow() -> None:
    place = places.find()
    starting.take_share(place)
    member = Member(place)
    while True:  # until it is killed
        numbers, times = member.told(0, 0)
        member.prepare(numbers)
        member.sum(times)


if __name__ == "__main__":
    _follow()
