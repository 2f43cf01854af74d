"""Whose work a machine's CPUs do, and what counts as work."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from suite.measure import cpus, load
from suite.measure.load import Load, LoadMeter


class OfLinux(NamedTuple):
    user: float
    nice: float
    system: float
    irq: float
    softirq: float
    steal: float
    iowait: float
    idle: float


def test_waiting_for_a_disk_is_idle_and_what_the_kernel_does_is_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten seconds of a CPU: one of each kind, and three idle."""
    times = iter([OfLinux(*[0.0] * 8), OfLinux(*[1.0] * 7, 3.0)])
    monkeypatch.setattr(load, "usable_indices", lambda: [0])
    monkeypatch.setattr(load, "usable_cpus", lambda: 1)
    monkeypatch.setattr(load, "TELLS_STEAL", True)
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: [next(times)])
    monkeypatch.setattr(LoadMeter, "_our_seconds", lambda _: 0.0)
    assert LoadMeter().read() == Load(utilisation=0.5, steal=0.1, others=0.5)


def test_the_load_is_that_of_our_cpus_where_others_are_switched_off(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As with SMT off where siblings have neighbouring numbers: of four CPUs, ours are the last two."""
    (tmp_path / "online").write_text("0,2,4-5\n")
    busy, idle, none = (OfLinux(*[0.0] * 8)._replace(**each) for each in ({"user": 1.0}, {"idle": 1.0}, {}))
    times = iter([[none] * 4, [idle, idle, busy, idle]])
    monkeypatch.setattr(cpus, "ONLINE", tmp_path / "online")
    monkeypatch.setattr(load, "usable_indices", lambda: [4, 5])
    monkeypatch.setattr(load, "usable_cpus", lambda: 2)
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: next(times))
    monkeypatch.setattr(LoadMeter, "_our_seconds", lambda _: 0.0)
    assert LoadMeter().read()._replace(steal=None) == Load(utilisation=0.5, steal=None, others=0.5)


def test_what_our_children_start_is_ours() -> None:
    command = ["sh", "-c", "sleep 600 & echo $!; wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        grandchild = int(child.stdout.readline())
        found = load.ours([])
        psutil.Process(grandchild).kill()
    assert {child.pid, grandchild} <= found.keys()
