"""How busy this machine's CPUs are, and with whose work."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import psutil

from suite.measure.cpus import listed_indices, usable_cpus, usable_indices

TELLS_STEAL = hasattr(psutil.cpu_times(), "steal")  # as Linux does, and macOS does not
MAX_OTHERS = 0.05  # of the CPUs' time: others that take a twentieth can cost a CPU run a twentieth of its speed


class Load(NamedTuple):
    """Fractions, 0 to 1, of the time of the CPUs that this process may use; None where not known."""

    utilisation: float | None
    steal: float | None
    others: float | None


def ours(workers: Sequence[int]) -> dict[int, psutil.Process]:
    """This process, the run's other `workers` on this machine (whoever started them), and all their children, by id."""
    found: dict[int, psutil.Process] = {}
    for each in (os.getpid(), *workers):
        with suppress(psutil.Error):
            process = psutil.Process(each)
            found |= {one.pid: one for one in (process, *process.children(recursive=True))}
    return found


class LoadMeter:
    """Measures the load between one `read()` and the next.

    All processes on the same CPUs except `ours` are others; they count only as far as they take more than a quota
    leaves to them. New processes of ours are looked for only when others took more than `MAX_OTHERS`, because going
    through all processes takes too long to do every time.
    """

    def __init__(self, workers: Sequence[int] = ()) -> None:
        self._indices = {*usable_indices()}
        self._share = usable_cpus() / len(self._indices)
        self._workers = workers
        self._ours: dict[int, psutil.Process] = {}
        self._look()
        self._last = self._times()

    def read(self) -> Load:
        """The load since the last call, or since the meter was made."""
        now = self._times()
        load = self._load(now)
        if (load.others or 0.0) > MAX_OTHERS:
            self._look()
            now = (*now[:-1], self._our_seconds())
            load = self._load(now)
        self._last = now
        return load

    def _look(self) -> None:
        """Add the processes that are ours by now; those that have ended stay listed."""
        self._ours |= ours(self._workers)

    def _load(self, times: tuple[float, float, float, float]) -> Load:
        total, busy, steal, ours = (now - before for now, before in zip(times, self._last, strict=True))
        if total <= 0:
            return Load(None, None, None)
        available = total * self._share
        stolen = fraction(steal / total) if TELLS_STEAL else None
        foreign = max(0.0, busy - ours - (total - available))
        return Load(fraction((ours + foreign) / available), stolen, fraction(foreign / available))

    def _times(self) -> tuple[float, float, float, float]:
        """Seconds so far: of all usable CPUs together, busy, stolen by the hypervisor, and used by our processes."""
        total = busy = steal = 0.0
        cpus: list[Any] = psutil.cpu_times(percpu=True)
        for index, each in zip(listed_indices(len(cpus)), cpus, strict=True):
            if index in self._indices:
                cpu = each._asdict()
                active = sum(cpu.get(name, 0.0) for name in ("user", "nice", "system", "irq", "softirq"))
                stolen = cpu.get("steal", 0.0)
                busy, steal = busy + active, steal + stolen
                total += active + stolen + cpu["idle"] + cpu.get("iowait", 0.0)
        return total, busy, steal, self._our_seconds()

    def _our_seconds(self) -> float:
        """CPU time of our processes and their ended children; macOS tells a process only of its own children."""
        seconds = 0.0
        for process in self._ours.values():
            try:
                times = os.times() if process.pid == os.getpid() else process.cpu_times()
                seconds += sum(times[:4])
            except psutil.Error:  # ended: its time is now among its parent's ended children
                continue
        return seconds


def fraction(value: float) -> float:
    """The value within 0 to 1: two clocks may put a share of time just beyond."""
    return min(1.0, max(0.0, value))
