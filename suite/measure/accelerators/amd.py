"""AMD's accelerators, through AMD SMI."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from zeus.exception import ZeusBaseError

from suite.measure.accelerators.devices import Accelerator, Found, chosen_indices

if TYPE_CHECKING:
    from zeus.device.gpu.amd import AMDGPU, AMDGPUs

HIP = "HIP_VISIBLE_DEVICES"
KFD = Path("/dev/kfd")  # through which ROCm computes
DRI = Path("/dev/dri")  # where each accelerator has a node
WHOLE = ("SPX", "N/A")  # partition modes of an accelerator that is not split
BF16 = re.compile(r"gfx(908|90a|9[45]\w|1[12]\w\w)")  # matrix units: CDNA from the first on, RDNA from the third
VIOLATIONS = {
    "active_prochot_thrm": "hardware",
    "active_socket_thrm": "heat",
    "active_vr_thrm": "heat",
    "active_hbm_thrm": "heat",
}


def find() -> Found | None:
    """Return the accelerators that the environment leaves visible, in HIP's order; None without any or without AMD SMI.

    HIP numbers the devices that ROCR_VISIBLE_DEVICES leaves. HIP_VISIBLE_DEVICES, or CUDA_VISIBLE_DEVICES if that is
    not set, refers to these numbers (ROCm, GPU isolation techniques).
    """
    if not KFD.exists() or not answers():
        return None
    smi = _smi()
    try:
        handles = smi.amdsmi_get_processor_handles()
        numbered = [(smi.amdsmi_get_gpu_enumeration_info(handle), handle) for handle in handles]
        driver = smi.amdsmi_get_gpu_driver_info(handles[0])["driver_version"] if handles else None
    except smi.AmdSmiException:
        return None
    if not numbered:
        return None
    # If none can be opened, the user lacks permission, which a framework reports before it trains.
    numbered = [(told, handle) for told, handle in numbered if _opens(told["drm_render"])] or numbered
    if all(isinstance(told["hip_id"], int) for told, _ in numbered):  # else N/A: the driver does not report it
        numbered.sort(key=lambda each: each[0]["hip_id"])
    visible = numbered
    for setting in (
        os.environ.get("ROCR_VISIBLE_DEVICES"),
        os.environ.get(HIP, os.environ.get("CUDA_VISIBLE_DEVICES")),
    ):
        visible = [visible[index] for index in chosen_indices([told["hip_uuid"] for told, _ in visible], setting)]
    indices = tuple(told["hip_id"] for told, _ in visible)
    known, rocm = smi.amdsmi_get_rocm_version()
    return Found(
        devices=[Device(told["hip_id"], handle, indices) for told, handle in visible],
        hidden=len(numbered) - len(visible),
        library="amdsmi",
        driver=f"AMD driver {driver}" + (f", ROCm {rocm}" if known else ""),
    )


def _opens(node: int | str) -> bool:
    """Whether HIP can open the accelerator's node; in a container with some GPUs, AMD SMI lists all of the host's."""
    if isinstance(node, str):  # N/A
        return True
    try:
        os.close(os.open(DRI / f"renderD{node}", os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def answers() -> bool:
    """Whether AMD SMI is usable: it may be missing, not match ROCm, or be too old (before 6.4) to tell HIP's order."""
    return bool(_zeus().amdsmi_is_available()) and hasattr(_smi(), "amdsmi_get_gpu_enumeration_info")


@dataclass
class Device:
    """An accelerator by its HIP index and AMD SMI handle; `together` has the HIP indices of all that were found."""

    index: int
    handle: Any
    together: tuple[int, ...]

    def describe(self) -> Accelerator:
        """See `devices.Device`."""
        smi, told, memory = _smi(), dict[str, str](), psutil.virtual_memory().total
        with suppress(smi.AmdSmiException):
            told = smi.amdsmi_get_gpu_asic_info(self.handle)
        with suppress(smi.AmdSmiException):  # it fails for one that shares the machine's memory
            memory = smi.amdsmi_get_gpu_memory_total(self.handle, smi.AmdSmiMemoryType.VRAM)
        split, architecture = self._partition(), told.get("target_graphics_version", "unknown")
        return Accelerator(
            name=told.get("market_name", "AMD") + (f" {split}" if split else ""),
            memory_gb=round(memory / 2**30, 1),
            architecture=architecture,
            bf16=BF16.fullmatch(architecture) is not None,
        )

    def joules(self) -> float | None:
        """See `devices.Device`; None for a partition, since the counter is that of the whole accelerator."""
        try:
            return self._counter.get_total_energy_consumption() / 1000 if self._counter else None
        except ZeusBaseError:
            return None

    def utilisation(self) -> float | None:
        """See `devices.Device`."""
        try:
            busy = _smi().amdsmi_get_gpu_activity(self.handle)["gfx_activity"]
        except _smi().AmdSmiException:
            return None
        return busy / 100 if isinstance(busy, int) else None

    def processes(self) -> set[int] | None:
        """See `devices.Device`."""
        try:
            return {each["pid"] for each in _smi().amdsmi_get_gpu_process_list(self.handle)}
        except _smi().AmdSmiException:
            return None

    def slowdowns(self) -> set[str]:
        """See `devices.Device`; only the MI300 and newer report it."""
        try:
            told = _smi().amdsmi_get_violation_status(self.handle)
        except _smi().AmdSmiException:
            return set()
        return {cause for name, cause in VIOLATIONS.items() if told[name] is True}

    def throttled_ms(self) -> float | None:
        """None: AMD SMI's counts of violations have no unit of time."""
        return None

    @cached_property
    def _counter(self) -> AMDGPU | None:
        manager = None if self._partition() else _manager(self.together)
        return next((each for each in manager.gpus if each.gpu_index == self.index), None) if manager else None

    def _partition(self) -> str | None:
        """The partition mode, such as CPX; None if the accelerator is not split."""
        try:
            found: str = _smi().amdsmi_get_gpu_compute_partition(self.handle)
        except _smi().AmdSmiException:  # not a kind that can be split
            return None
        return None if found in WHOLE else found


@cache
def _manager(indices: tuple[int, ...]) -> AMDGPUs | None:
    """Zeus's view of the accelerators with these HIP indices; takes 0.5 s to check whose energy matches their power."""
    from zeus.device.gpu.amd import AMDGPUs  # as in _zeus

    class Lasting(AMDGPUs):  # type: ignore[misc]
        """An AMDGPUs that does not shut AMD SMI down for the whole process when it is dropped, or could not be made."""

        def __del__(self) -> None:
            """Do nothing."""

    try:
        with _chosen(indices):
            return Lasting()
    except (ZeusBaseError, ValueError, KeyError):
        return None


@contextmanager
def _chosen(indices: tuple[int, ...]) -> Iterator[None]:
    """Set HIP_VISIBLE_DEVICES to these indices for Zeus, which knows neither UUIDs nor ROCR_VISIBLE_DEVICES."""
    given = os.environ.get(HIP)
    os.environ[HIP] = ",".join(map(str, indices))
    try:
        yield
    finally:
        if given is None:
            del os.environ[HIP]
        else:
            os.environ[HIP] = given


def _smi() -> Any:
    return _zeus().amdsmi


def _zeus() -> Any:
    from zeus.device.gpu import amd  # where it is used: it takes a quarter of a second to import

    return amd
