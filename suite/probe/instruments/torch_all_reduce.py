"""Measure how fast the workers of a run all-reduce arrays by torch.distributed (NCCL, RCCL, gloo)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.distributed as dist

from suite.harness.implementation import Device
from suite.harness.workers.channel import at
from suite.harness.workers.place import Place
from suite.probe.instruments.torch_counting import torch_device, wait

SIZES = tuple(4 * 16**i for i in range(1, 7))  # bytes: from 64 to 64 MiB
REPEATS = 20
LARGEST_REPEATS = 5


class AllReduce(NamedTuple):
    """All-reduce of `nbytes` of float32: the median seconds, and the bus bandwidth in bytes per second.

    That is what each worker sends in a ring, 2 (n - 1) / n times the bytes, over the time (nccl-tests, PERFORMANCE.md).
    """

    nbytes: int
    seconds: float
    bandwidth: float


def measured(place: Place, port: int, kind: str) -> Iterator[AllReduce]:
    """Measure all sizes, smallest first, as the worker at `place`; the workers meet at `port`.

    `kind` is `gpu` or `cpu`.
    """
    device = torch_device(Device(kind, "fp32", local_rank=place.local_rank))
    backend, where = dist.get_default_backend_for_device(device), f"tcp://{at(place.host, port)}"
    dist.init_process_group(backend, init_method=where, rank=place.rank, world_size=place.world_size)
    sent = 2 * (place.world_size - 1) / place.world_size
    for nbytes in SIZES:
        array = torch.ones(nbytes // 4, device=device)
        times = [_once(array) for _ in range(REPEATS if nbytes < SIZES[-1] else LARGEST_REPEATS)]
        seconds = statistics.median(times[1:])
        yield AllReduce(nbytes, seconds, sent * nbytes / seconds)
    dist.destroy_process_group()


def _once(array: torch.Tensor) -> float:
    """Seconds of one all-reduce, from when all workers are ready."""
    dist.barrier()
    began = time.perf_counter()
    dist.all_reduce(array)
    wait(array.device)
    return time.perf_counter() - began
