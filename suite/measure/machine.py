"""The machine at hand. No framework is imported."""

from __future__ import annotations

from dataclasses import dataclass

import psutil

from suite.measure import accelerators, cgroup
from suite.measure.accelerators.devices import Accelerator
from suite.measure.cpus import usable_cpus
from suite.measure.processor import processor

ALIKE = ("cpu_model", "sockets", "logical_cpus", "accelerators", "driver")  # on all nodes of a run
BF16_CPU_FLAGS = {"avx512_bf16", "amx_bf16"}


@dataclass(frozen=True)
class Machine:
    """The machine as this process finds it. `logical_cpus` counts what its affinity and control group's quota allow."""

    cpu_model: str
    logical_cpus: int
    sockets: int | None
    memory_gb: float
    cpu_bf16: bool
    accelerators: tuple[Accelerator, ...] = ()
    hidden_accelerators: int = 0  # by CUDA_VISIBLE_DEVICES, or another such variable
    library: str | None = None  # which found the accelerators, and measures them
    driver: str | None = None  # versions of the driver and of the accelerators' platform


def detect() -> Machine:
    """Describe this machine."""
    model, sockets, flags = processor()
    found = accelerators.find()
    return Machine(
        cpu_model=model,
        logical_cpus=usable_cpus(),
        sockets=sockets,
        memory_gb=round(psutil.virtual_memory().total / 2**30, 1),
        cpu_bf16=bool(BF16_CPU_FLAGS & flags),
        accelerators=tuple(each.describe() for each in found.devices) if found else (),
        hidden_accelerators=found.hidden if found else 0,
        library=found.library if found else None,
        driver=found.driver if found else None,
    )


def room_of(device_kind: str) -> float:
    """Bytes of memory for work on a `gpu` (all of the smallest, which frameworks reserve) or `cpu` (what is free)."""
    if device_kind == "gpu":
        return min(each.memory_gb for each in detect().accelerators) * 2**30
    free, left = psutil.virtual_memory().available, cgroup.memory_left()
    return float(free if left is None else min(free, left))
