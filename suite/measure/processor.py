"""The processor's name, sockets, instruction flags and caches, as the system reports them."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def processor() -> tuple[str, int | None, set[str]]:
    """Return the model name, the number of sockets (None if not known), and the instruction flags on x86."""
    try:
        fields = _fields(CPUINFO.read_text().splitlines())
    except OSError:
        fields = []
    model = next((value for key, value in fields if key == "model name"), "") or _told()
    sockets = len({value for key, value in fields if key == "physical id"})
    flags = next((set(value.split()) for key, value in fields if key == "flags"), set())
    return model, sockets or None, flags


def caches() -> list[tuple[str, str, str]]:
    """Level, kind and size of each of the first core's caches, such as 1, Data and 32K, as Linux reports them."""
    folders = sorted(CACHES.glob("index*"))
    try:
        return [(_read(each / "level"), _read(each / "type"), _read(each / "size")) for each in folders]
    except OSError:
        return []


def _read(path: Path) -> str:
    return path.read_text().strip()


def _told() -> str:
    """The name from sysctl or lscpu: macOS has no /proc/cpuinfo, and Linux on ARM has no name in it."""
    mac = platform.system() == "Darwin"
    words = ["sysctl", "machdep.cpu.brand_string"] if mac else ["lscpu"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False)
    except OSError:
        done = None
    fields = _fields(done.stdout.splitlines() if done else [])
    names = (value for key, value in fields if key in ("machdep.cpu.brand_string", "Model name") and value != "-")
    return next(names, "") or platform.processor() or platform.machine()


def _fields(lines: Iterable[str]) -> list[tuple[str, str]]:
    return [(key.strip(), value.strip()) for key, _, value in (line.partition(":") for line in lines)]
