"""What AMD SMI's Python interface says, made up: no such accelerator is here."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from zeus.device.gpu import amd as zeus

from suite.measure.accelerators import amd


class AmdSmiLibraryException(Exception):
    """What AMD SMI raises."""

    def get_error_code(self) -> int:
        return 2

    def get_error_info(self) -> str:
        return "AMDSMI_STATUS_NOT_SUPPORTED"


def unsupported(*_: Any) -> None:
    raise AmdSmiLibraryException


@dataclass
class Card:
    """What AMD SMI says of one accelerator, which is its own handle."""

    hip: int | str
    name: str = "AMD Instinct MI300X"
    architecture: str = "gfx942"
    partition: str | None = "SPX"  # None: cannot be split
    watts: int = 500
    joules: float = 1000.0
    counts: float = 1.0  # joules that the counter rises by for each that is drawn
    busy: int | str = 75
    pids: tuple[int, ...] = ()
    violations: tuple[str, ...] = ()
    render: int | str = "N/A"


def install(monkeypatch: pytest.MonkeyPatch, *cards: Card) -> None:
    """Make AMD SMI report `cards`, in this order, on a machine where a second passes when somebody sleeps one."""

    def sleep(seconds: float) -> None:
        for card in cards:
            card.joules += card.watts * card.counts * seconds

    def shut_down() -> None:
        for name in answers:
            if name.startswith("amdsmi_get"):
                monkeypatch.setattr(zeus.amdsmi, name, unsupported)

    def violations(card: Card) -> dict[str, Any]:
        return dict.fromkeys(amd.VIOLATIONS, False) | {"active_ppt_pwr": True} | dict.fromkeys(card.violations, True)

    answers: dict[str, Any] = {
        "AmdSmiException": AmdSmiLibraryException,
        "AmdSmiLibraryException": AmdSmiLibraryException,
        "AmdSmiInitFlags": SimpleNamespace(INIT_AMD_GPUS=2),
        "AmdSmiMemoryType": SimpleNamespace(VRAM=0),
        "amdsmi_init": lambda flags: None,
        "amdsmi_shut_down": shut_down,
        "amdsmi_get_processor_handles": lambda: list(cards),
        "amdsmi_get_gpu_enumeration_info": lambda card: {
            "hip_id": card.hip,
            "hip_uuid": f"GPU-{card.hip}a",
            "drm_render": card.render,
        },
        "amdsmi_get_gpu_asic_info": lambda card: {
            "market_name": card.name,
            "target_graphics_version": card.architecture,
        },
        "amdsmi_get_gpu_memory_total": lambda card, kind: 192 * 2**30,
        "amdsmi_get_gpu_driver_info": lambda card: {"driver_version": "6.14.5"},
        "amdsmi_get_rocm_version": lambda: (True, "7.0.2"),
        "amdsmi_get_gpu_compute_partition": lambda card: card.partition or unsupported(),
        "amdsmi_get_power_info": lambda card: {"current_socket_power": card.watts, "average_socket_power": "N/A"},
        "amdsmi_get_energy_count": lambda card: {"energy_accumulator": card.joules * 1e6, "counter_resolution": 1.0},
        "amdsmi_get_gpu_activity": lambda card: {"gfx_activity": card.busy},
        "amdsmi_get_gpu_process_list": lambda card: [{"pid": pid} for pid in card.pids],
        "amdsmi_get_violation_status": violations,
    }
    monkeypatch.setattr(zeus, "amdsmi", SimpleNamespace(**answers))
    monkeypatch.setattr(zeus, "amdsmi_is_available", lambda: True)
    monkeypatch.setattr(zeus, "time", SimpleNamespace(sleep=sleep))
    zeus._hip_to_amdsmi_handle.cache_clear()
    amd._manager.cache_clear()
