"""How busy this machine's CPUs are, and with whose work."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import psutil

from suite.measure.machine import usable_cpus, usable_indices


class Load(NamedTuple):
    """Fractions, 0 to 1, of the time of the CPUs that this process may use; None where not known."""

    utilisation: float | None
    steal: float | None
    others: float | None


class LoadMeter:
    """Measures the load between one `read()` and the next.

    Ours are this process and `workers`, each with the children that it has now; whatever else runs on the same CPUs are
    others.
    """

    def __init__(self, workers: Sequence[int] = ()) -> None:
        self._indices = usable_indices()
        self._share = usable_cpus() / len(self._indices)
        ours: dict[int, psutil.Process] = {}
        for each in (os.getpid(), *workers):
            with suppress(psutil.Error):
                process = psutil.Process(each)
                ours |= {found.pid: found for found in (process, *process.children(recursive=True))}
        self._ours = list(ours.values())
        self._last = self._times()

    def read(self) -> Load:
        """The load since the last call, or since the meter was made."""
        last, self._last = self._last, self._times()
        total, busy, steal, ours = (now - before for now, before in zip(self._last, last, strict=True))
        if total <= 0:
            return Load(None, None, None)
        available = total * self._share
        return Load(_fraction(busy / available), _fraction(steal / total), _fraction((busy - ours) / available))

    def _times(self) -> tuple[float, float, float, float]:
        """Seconds so far: of all usable CPUs together, those busy, those stolen by the hypervisor, those of ours."""
        total = busy = steal = 0.0
        cpus: list[Any] = psutil.cpu_times(percpu=True)
        for index in self._indices:
            if index < len(cpus):
                cpu = cpus[index]._asdict()
                active = sum(cpu.get(name, 0.0) for name in ("user", "nice", "system", "irq", "softirq"))
                stolen = cpu.get("steal", 0.0)
                busy, steal = busy + active, steal + stolen
                total += active + stolen + cpu["idle"] + cpu.get("iowait", 0.0)
        return total, busy, steal, self._our_seconds()

    def _our_seconds(self) -> float:
        seconds = 0.0
        for process in self._ours:
            try:
                seconds += sum(process.cpu_times()[:4])  # its own and its ended children's, user and system
            except psutil.Error:  # ended: its time is now among its parent's ended children
                continue
        return seconds


def _fraction(value: float) -> float:
    return min(1.0, max(0.0, value))
