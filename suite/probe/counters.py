"""What the machine counts while a process computes: CPU time, faults, switches and energy, or why it does not."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass

from suite.harness.implementation import Device
from suite.measure.sampler import Counters

PROCESS = {
    "CPU time, user": ("ru_utime", "s"),
    "CPU time, system": ("ru_stime", "s"),
    "page faults, minor": ("ru_minflt", ""),
    "page faults, major": ("ru_majflt", ""),
    "context switches, waiting": ("ru_nvcsw", ""),
    "context switches, displaced": ("ru_nivcsw", ""),
    "blocks read": ("ru_inblock", ""),
    "blocks written": ("ru_oublock", ""),
}
ENERGY = ("energy, accelerators", "energy, CPU packages", "energy, memory")
KERNELS = "counters of kernels (CUPTI)"
NO_CUPTI = "PyTorch's and TensorFlow's profilers tell kernels' times alone; Nsight Compute tells the rest"
NO_RAPL = "RAPL is not there, or not for this user"


@dataclass(frozen=True)
class Reading:
    """All counters at one moment, `seconds` on the clock; None for a counter that is not available."""

    seconds: float
    values: dict[str, float | None]


class Meter:
    """The counters of this process and its machine: `units` of all by name, `missing` with why some are not there."""

    def __init__(self, device: Device) -> None:
        self._energy = Counters(device.kind)
        gpu = device.kind == "gpu"
        self.units = {name: unit for name, (_, unit) in PROCESS.items()}
        self.units |= {**dict.fromkeys(ENERGY, "J"), KERNELS: ""}
        self.missing = {KERNELS: NO_CUPTI if gpu else "no accelerator is looked at"}
        why = (
            "the library of the accelerators counts no energy here" if gpu else "no accelerator is looked at",
            NO_RAPL,
            NO_RAPL,
        )
        joules = self._energy.joules()
        self.missing |= {name: no for name, no, found in zip(ENERGY, why, joules, strict=True) if found is None}

    def read(self) -> Reading:
        """All counters now."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        values: dict[str, float | None] = {name: getattr(used, field) for name, (field, _) in PROCESS.items()}
        values |= dict(zip(ENERGY, self._energy.joules(), strict=True))
        return Reading(time.perf_counter(), values | {KERNELS: None})


def between(before: Reading, after: Reading, name: str) -> float | None:
    """The count between two readings; None if there is none, or if the counter ran backwards."""
    first, last = before.values[name], after.values[name]
    return last - first if first is not None and last is not None and last >= first else None
