"""Machines and NVML devices that are not there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from suite.measure.accelerators.devices import Accelerator
from suite.measure.machine import Machine


def machine(*names: str, cpus: int = 4, bf16: bool = False, accelerators_bf16: bool = True) -> Machine:
    accelerators = tuple(Accelerator(name, 80.0, "sm_80", accelerators_bf16) for name in names)
    return Machine("A CPU", cpus, 1, 64.0, bf16, accelerators)


@dataclass(frozen=True)
class Device:
    """What NVML says of one accelerator."""

    name: str
    uuid: str
    mig: bool | None = None  # None: cannot be split
    energy_mj: int | None = 5_000_000
    busy: int = 50
    slowdowns: int = 0
    pids: tuple[int, ...] = ()
    parts: tuple[Device, ...] = ()
    memory: int | None = 80 * 2**30  # None: it is not told
    closed: bool = False  # to this process


def zones(folder: Path, *names: str) -> Path:
    """A folder of RAPL's zones with these names, as far as every user may read them."""
    for index, name in enumerate(names):
        (folder / f"intel-rapl:{index}").mkdir(parents=True)
        (folder / f"intel-rapl:{index}/name").write_text(f"{name}\n")
    return folder


def failing(code: int) -> Callable[[], Any]:
    """What raises NVML's error of that number."""

    def fail() -> None:
        raise pynvml.NVMLError(code)

    return fail


def install(monkeypatch: pytest.MonkeyPatch, *devices: Device) -> None:
    """Make NVML report `devices`; a device is its own handle."""

    def opened(index: int) -> Device:
        if devices[index].closed:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)
        return devices[index]

    def part(device: Device, index: int) -> Device:
        if index >= len(device.parts):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return device.parts[index]

    def memory(device: Device) -> SimpleNamespace:
        if device.memory is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)
        return SimpleNamespace(total=device.memory)

    def mig(device: Device) -> list[int]:
        if device.mig is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [int(device.mig), int(device.mig)]

    def energy(device: Device) -> int:
        if device.energy_mj is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return device.energy_mj

    answers: dict[str, Any] = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: len(devices),
        "nvmlDeviceGetHandleByIndex": opened,
        "nvmlDeviceGetUUID": lambda device: device.uuid,
        "nvmlDeviceGetName": lambda device: device.name,
        "nvmlDeviceGetMigMode": mig,
        "nvmlDeviceGetMaxMigDeviceCount": lambda device: 7,
        "nvmlDeviceGetMigDeviceHandleByIndex": part,
        "nvmlDeviceGetMemoryInfo": memory,
        "nvmlDeviceGetCudaComputeCapability": lambda device: [9, 0],
        "nvmlSystemGetCudaDriverVersion_v2": lambda: 12080,
        "nvmlSystemGetDriverVersion": lambda: "570.1",
        "nvmlDeviceGetC2cModeInfoV": lambda device: SimpleNamespace(isC2cEnabled=False),
        "nvmlDeviceGetTotalEnergyConsumption": energy,
        "nvmlDeviceGetUtilizationRates": lambda device: SimpleNamespace(gpu=device.busy),
        "nvmlDeviceGetCurrentClocksEventReasons": lambda device: device.slowdowns,
        "nvmlDeviceGetComputeRunningProcesses": lambda device: [SimpleNamespace(pid=pid) for pid in device.pids],
        "nvmlDeviceGetViolationStatus": lambda device, kind: SimpleNamespace(violationTime=7_000_000),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)
