"""NVIDIA's accelerators, through NVML."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pynvml
from zeus.exception import ZeusBaseError

from suite.measure.accelerators.devices import Accelerator, Found, chosen_indices

if TYPE_CHECKING:
    from zeus.device.gpu.nvidia import NVIDIAGPU

DRIVER = Path("/dev/nvidiactl"), Path("/usr/lib/wsl/lib/libcuda.so.1")  # files of the driver on Linux and in WSL
BF16_COMPUTE_CAPABILITY = (8, 0)  # Ampere
SLOWDOWNS = {
    pynvml.nvmlClocksEventReasonHwSlowdown: "hardware",
    pynvml.nvmlClocksEventReasonSwThermalSlowdown: "heat",
    pynvml.nvmlClocksEventReasonHwThermalSlowdown: "heat",
    pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "power brake",
}


def find() -> Found | None:
    """Return the accelerators that CUDA_VISIBLE_DEVICES leaves visible; None without any, or without NVML.

    They are in NVML's order, which CUDA is told to use too: by default it puts the fastest of unlike GPUs first. Each
    part of a split GPU (MIG) counts as one; CUDA lets a process use a single part, and no whole GPU beside it.
    """
    devices, uuids = list[Device](), list[str]()
    try:
        pynvml.nvmlInit()
        for index in range(pynvml.nvmlDeviceGetCount()):
            with suppress(pynvml.NVMLError):  # for one that this job may not open; CUDA leaves it out too
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                uuid = pynvml.nvmlDeviceGetUUID(handle)
                parts = _parts(handle)
                devices += [Device(index, handle, part) for part in parts.values()] or [Device(index, handle)]
                uuids += parts or [uuid]
        driver = _driver()
    except pynvml.NVMLError:
        return None
    if not devices:
        return None
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # before CUDA begins: no framework is imported yet
    chosen = [devices[i] for i in chosen_indices(uuids, os.environ.get("CUDA_VISIBLE_DEVICES"))]
    chosen = [each for each in chosen if each.part is not None][:1] or chosen
    return Found(devices=chosen, hidden=len(devices) - len(chosen), library="nvml", driver=driver)


def broken() -> str | None:
    """Why NVML does not answer on a machine that has NVIDIA's driver; None where it does, or without the driver."""
    if not any(each.exists() for each in DRIVER):
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return str(error)
    return None


def _driver() -> str:
    """The driver's version and the newest CUDA that it supports, which is unknown if CUDA's own library is missing."""
    driver = f"NVIDIA driver {pynvml.nvmlSystemGetDriverVersion()}"
    try:
        cuda = pynvml.nvmlSystemGetCudaDriverVersion_v2()
    except pynvml.NVMLError:
        return driver
    return f"{driver}, CUDA {cuda // 1000}.{cuda % 1000 // 10}"


def _split(handle: Any) -> bool:
    try:
        return bool(pynvml.nvmlDeviceGetMigMode(handle)[0] == pynvml.NVML_DEVICE_MIG_ENABLE)
    except pynvml.NVMLError:  # not a kind that can be split
        return False


def _parts(handle: Any) -> dict[str, Any]:
    """The handles of the parts of a GPU that is split, by their UUIDs."""
    found = {}
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle) if _split(handle) else 0):
        with suppress(pynvml.NVMLError):  # there may be fewer than the maximum
            part = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            found[pynvml.nvmlDeviceGetUUID(part)] = part
    return found


@dataclass
class Device:
    """An accelerator by its NVML index and handle; for a split GPU, `part` is the handle of one part."""

    index: int
    handle: Any
    part: Any = None

    def describe(self) -> Accelerator:
        """See `devices.Device`."""
        try:
            memory = pynvml.nvmlDeviceGetMemoryInfo(self._own).total
        except pynvml.NVMLError:  # for one that shares the machine's memory
            memory = psutil.virtual_memory().total
        major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(self.handle)
        name = pynvml.nvmlDeviceGetName(self._own)  # that of a part has its profile, such as MIG 1g.5gb
        return Accelerator(
            name=name + (" MIG" if _split(self.handle) and " MIG" not in name else ""),
            memory_gb=round(memory / 2**30, 1),
            architecture=f"sm_{major}{minor}",
            bf16=(major, minor) >= BF16_COMPUTE_CAPABILITY,
        )

    def joules(self) -> float | None:
        """See `devices.Device`; None for a part, whose energy is not counted separately."""
        if self.part is not None:
            return None
        try:
            return float(self._counter.get_total_energy_consumption() / 1000)
        except ZeusBaseError:
            return None

    def utilisation(self) -> float | None:
        """See `devices.Device`."""
        try:
            return float(pynvml.nvmlDeviceGetUtilizationRates(self.handle).gpu / 100)
        except pynvml.NVMLError:
            return None

    def processes(self) -> set[int] | None:
        """See `devices.Device`."""
        try:
            return {each.pid for each in pynvml.nvmlDeviceGetComputeRunningProcesses(self._own)}
        except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError):  # the latter from drivers before 510
            return None

    def slowdowns(self) -> set[str]:
        """See `devices.Device`."""
        try:
            bits = int(pynvml.nvmlDeviceGetCurrentClocksEventReasons(self.handle))
        except pynvml.NVMLError:
            return set()
        return {cause for bit, cause in SLOWDOWNS.items() if bits & bit}

    def throttled_ms(self) -> float | None:
        """See `devices.Device`."""
        try:
            status = pynvml.nvmlDeviceGetViolationStatus(self.handle, pynvml.NVML_PERF_POLICY_THERMAL)
        except pynvml.NVMLError:
            return None
        return float(status.violationTime / 1e6)

    @property
    def _own(self) -> Any:
        """The handle of the part, or of the GPU if there is no part."""
        return self.handle if self.part is None else self.part

    @cached_property
    def _counter(self) -> NVIDIAGPU:
        from zeus.device.gpu.nvidia import NVIDIAGPU  # as in amd.py

        return NVIDIAGPU(self.index)
