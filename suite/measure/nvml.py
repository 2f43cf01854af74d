"""NVIDIA accelerators through NVML, without any framework: those that CUDA_VISIBLE_DEVICES leaves visible."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pynvml


def visible() -> tuple[list[tuple[int, Any]], int]:
    """NVML's index and handle of each accelerator this process may use, in CUDA's order, and the number hidden."""
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        uuids = [pynvml.nvmlDeviceGetUUID(handle) for handle in handles]
    except pynvml.NVMLError:
        return [], 0
    chosen = chosen_indices(uuids, os.environ.get("CUDA_VISIBLE_DEVICES"))
    return [(index, handles[index]) for index in chosen], len(handles) - len(chosen)


def chosen_indices(uuids: Sequence[str], setting: str | None) -> list[int]:
    """What CUDA makes of CUDA_VISIBLE_DEVICES: indices or starts of UUIDs, up to the first that is none or repeated."""
    if setting is None:
        return list(range(len(uuids)))
    chosen: list[int] = []
    for word in (part.strip() for part in setting.split(",")):
        found = [i for i, uuid in enumerate(uuids) if word == str(i) or (word and uuid.startswith(word))]
        if len(found) != 1 or found[0] in chosen:
            break
        chosen += found
    return chosen
