from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from io import FileIO
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import psutil
import pytest
from zeus.device.cpu.common import ZeusCPUInitError

from suite.errors import UserError
from suite.measure import load, sampler
from suite.measure.energy import energy
from suite.measure.load import Load, LoadMeter
from suite.measure.sampler import Counters, Meter, Sampler
from suite.measure.samples import HEADER, Sample, read_samples
from tests.measure import fakes

T0 = 1_700_000_000_000
H200 = fakes.Device("NVIDIA H200", "GPU-a", energy_mj=2_000_500)


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No accelerators, no counters, and a sampler that hurries."""

    def none() -> None:
        raise ZeusCPUInitError("none here")

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    fakes.install(monkeypatch)
    monkeypatch.setattr("zeus.device.get_cpus", none)
    monkeypatch.setattr(sampler, "INTERVAL_S", 0.005)


class CPUTimes(NamedTuple):
    user: float
    idle: float


def meter_of(monkeypatch: pytest.MonkeyPatch, *times: CPUTimes, cpus: int = 1) -> LoadMeter:
    """A meter of alike CPUs, of which one may be used, that have these times at one reading after the other."""
    seen = iter(times)
    monkeypatch.setattr(load, "usable_indices", lambda: [*range(cpus)])
    monkeypatch.setattr(load, "usable_cpus", lambda: 1)
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: cpus * [next(seen)])
    return LoadMeter()


def clock(start: int = T0) -> Callable[[], int]:
    """A clock that goes a second further at each look."""
    return count(start, 1000).__next__


@pytest.fixture
def rapl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One package with memory, and the platform's zone, whose energy holds theirs."""
    zones = {"package-0": 3_000_000, "dram": 1_000_000, "psys": 9_000_000}
    for name, value in zones.items():
        (tmp_path / name).write_text(f"{value}\n")
    made = {name: SimpleNamespace(energy_uj_path=str(tmp_path / name)) for name in zones}
    cpus = [
        SimpleNamespace(cpu_index=0, rapl_file=made["package-0"], dram=made["dram"]),
        SimpleNamespace(cpu_index=1, rapl_file=made["psys"], dram=None),
    ]
    found = SimpleNamespace(cpus=cpus, rapl_dir=str(fakes.zones(tmp_path / "zones", "package-0", "psys")))
    monkeypatch.setattr("zeus.device.get_cpus", lambda: found)
    return tmp_path


def run(path: Path, device: str = "cpu", start: int = T0, rows: int = 3) -> Sampler:
    """A sampler that wrote at least `rows` rows and stopped."""
    enough = threading.Event()
    ticks: Iterator[int] = count(start, 1000)

    def look() -> int:
        now = next(ticks)
        if now - start >= rows * 1000:
            enough.set()
        return now

    made = Sampler(path, look, 100.0, device)
    made.start()
    assert enough.wait(600)
    made.stop()
    return made


def test_without_counters_cells_are_empty_and_the_estimate_is_labelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LoadMeter, "read", lambda meter: Load(1 / 3, 0.0, 0.0))
    path = tmp_path / "power.csv"
    made = run(path)
    found = read_samples(path)
    assert len(found) >= 3
    assert found[0].time_ms == T0
    assert all(each.accelerator_j is each.cpu_j is each.dram_j is None for each in found)
    assert [each.utilisation for each in found] == [None, *[0.3333] * (len(found) - 1)]
    joules, source = made.so_far()
    assert source == "estimated"
    assert joules == pytest.approx(energy(found, T0, found[-1].time_ms, 100.0).joules)


def test_counters_of_accelerators_and_cpus_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rapl: Path
) -> None:
    fakes.install(monkeypatch, H200, H200)
    path = tmp_path / "power.csv"
    run(path, "gpu")
    first, second, *_ = read_samples(path)
    assert (first.accelerator_j, first.cpu_j, first.dram_j) == (4001.0, 3.0, 1.0)
    assert (first.utilisation, second.utilisation) == (None, 0.5)


def test_a_run_on_cpus_leaves_accelerators_out(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch, H200)
    assert Counters("cpu").joules() == (None, None, None)
    assert Counters("gpu").joules() == (2000.5, None, None)


def test_counters_that_fail_are_none(monkeypatch: pytest.MonkeyPatch, rapl: Path) -> None:
    fakes.install(monkeypatch, H200, fakes.Device("NVIDIA L4", "GPU-b", energy_mj=None))
    counters = Counters("gpu")
    (rapl / "dram").unlink()
    assert counters.joules() == (None, None, None)


def test_counters_are_read_at_the_time_of_their_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """To go through thousands of processes first takes tenths of a second, of which the energy would be lost."""
    done: list[str] = []

    def joules(_: Counters) -> tuple[None, None, None]:
        done.append("counters")
        return None, None, None

    monkeypatch.setattr(Counters, "joules", joules)
    monkeypatch.setattr(sampler, "LoadMeter", lambda workers: done.append("processes"))
    meter = Meter("cpu")
    done.clear()
    meter.sample(T0)
    assert done == ["counters", "processes"]


def test_only_visible_accelerators_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch, H200, fakes.Device("NVIDIA H200", "GPU-b", energy_mj=7000))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-b")
    assert Counters("gpu").joules()[0] == 7.0


def test_a_restart_goes_on_with_the_file_and_with_the_joules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rapl: Path
) -> None:
    path = tmp_path / "power.csv"
    path.write_text(f"{HEADER}\n{T0},,1.000,1.000,,,\n{T0 + 1000},,2.000,1.000,,,\n{T0 + 2000},,3.0")
    made = run(path, start=T0 + 500)  # a clock set back: rows that would not be later are left out
    content = path.read_text()
    assert content.count(HEADER) == 1
    assert content.startswith(f"{HEADER}\n{T0},,1.000,1.000,,,\n{T0 + 1000},,2.000,1.000,,,\n{T0 + 1500},")
    joules, source = made.so_far()
    assert joules == pytest.approx(2.0)
    assert source == "rapl"


def test_the_time_between_a_kill_and_the_restart_is_not_estimated(tmp_path: Path) -> None:
    path = tmp_path / "power.csv"
    path.write_text(f"{HEADER}\n{T0},,,,,,\n{T0 + 1000},,,,0.5,0.0,0.0\n")
    run(path, start=T0 + 6000)
    found = read_samples(path)
    assert (found[2].time_ms, found[2].utilisation, found[2].others) == (T0 + 6000, None, None)
    used = energy(found, T0, T0 + 6000, 100.0)
    assert used.joules == pytest.approx(50)
    assert used.coverage == pytest.approx(1 / 6)


def test_a_file_killed_before_its_header_is_begun_again(tmp_path: Path) -> None:
    path = tmp_path / "power.csv"
    path.write_text(HEADER[:9])
    run(path)
    assert read_samples(path)


def test_a_file_that_holds_no_samples_is_the_users_to_mend(tmp_path: Path) -> None:
    path = tmp_path / "power.csv"
    path.write_text("something else\n")
    with pytest.raises(UserError, match=r"power\.csv: line 1: .*delete it"):
        Sampler(path, clock(), None, "cpu").start()


def test_a_full_disk_ends_the_sampling_and_not_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(FileIO):
        rows = 0

        def write(self, row: Any) -> int:
            self.rows += 1
            return super().write(row if self.rows < 4 else bytes(row)[:5])

    monkeypatch.setattr(sampler, "FileIO", Full)
    path = tmp_path / "power.csv"
    run(path, rows=2)
    assert len(read_samples(path)) == 2  # the header took the first row


def test_what_others_send_does_not_follow_a_row_that_the_disk_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(FileIO):
        full = False

        def write(self, row: Any) -> int:
            return super().write(bytes(row)[:5] if self.full else row)

    monkeypatch.setattr(sampler, "FileIO", Full)
    monkeypatch.setattr(sampler, "INTERVAL_S", 600)
    path = tmp_path / "power.csv"
    made = Sampler(path, clock(), None, "cpu", nodes=2)
    made.start()
    row = Sample(T0, None, None, None, 0.5, 0.0, 0.0, node=1)
    made.add(row)
    Full.full = True
    with pytest.raises(OSError, match="No space left"):
        made.add(row._replace(time_ms=T0 + 1000))
    Full.full = False
    made.add(row._replace(time_ms=T0 + 2000))
    made.stop()
    assert [(each.time_ms, each.node) for each in read_samples(path)] == [(T0, 0), (T0, 1)]


def test_the_energy_so_far_is_that_of_all_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "INTERVAL_S", 600)
    monkeypatch.setattr(LoadMeter, "read", lambda meter: Load(0.5, 0.0, 0.0))
    made = Sampler(tmp_path / "power.csv", iter([T0, T0 + 1000]).__next__, 100.0, "cpu", nodes=2)
    made.start()
    for at, joules in ((T0, 5.0), (T0 + 1000, 12.0)):
        made.add(Sample(at, None, joules, None, 0.5, 0.0, 0.0, node=1))
    assert made.so_far() == (7.0, "rapl")
    made.stop()
    assert made.so_far()[0] == 57.0


def test_a_second_row_of_one_millisecond_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With it nobody could read the file."""
    monkeypatch.setattr(sampler, "INTERVAL_S", 600)
    path = tmp_path / "power.csv"
    made = Sampler(path, iter([T0, T0, T0 + 1]).__next__, None, "cpu")
    made.start()
    made.sample()
    made.stop()
    assert [each.time_ms for each in read_samples(path)] == [T0, T0 + 1]


def test_no_more_is_written_than_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sampler", "samples"):
        monkeypatch.setattr(f"suite.measure.{module}.MAX_BYTES", 200)
    path = tmp_path / "power.csv"
    run(path, rows=20)
    assert 1 < len(read_samples(path)) < 20
    run(path, start=T0 + 100_000, rows=3)  # a restart goes on all the same
    assert path.stat().st_size <= 200


def test_children_that_are_started_later_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine of one CPU that is busy for a second, more than half of it with a child's work."""
    meter = meter_of(monkeypatch, CPUTimes(user=0.0, idle=0.0), CPUTimes(user=1.0, idle=0.0))
    work = "import sys, time\nwhile time.process_time() < 0.7: pass\nprint('done', flush=True)\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        assert child.stdout.readline() == b"done\n"
        found = meter.read()
    assert found.utilisation == 1.0
    assert found.others is not None
    assert found.others < 0.5


def test_what_ended_children_took_is_ours_where_the_system_tells_it_to_their_parent_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As macOS does, whose `cpu_times` of a process has zeros for its children's."""

    class OfProcess(NamedTuple):
        user: float
        system: float
        children_user: float
        children_system: float

    of_one = psutil.Process.cpu_times
    monkeypatch.setattr(psutil.Process, "cpu_times", lambda process: OfProcess(*of_one(process)[:2], 0.0, 0.0))
    meter = meter_of(monkeypatch, *(CPUTimes(user=seconds, idle=0.0) for seconds in (0.0, 1.0, 1.0)))
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.7: pass"], check=True)
    others = meter.read().others
    assert others is not None
    assert others < 0.5


@pytest.mark.parametrize("tells", [True, False])
def test_steal_is_none_where_the_system_does_not_tell(tells: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "TELLS_STEAL", tells)
    meter = meter_of(monkeypatch, CPUTimes(user=0.0, idle=0.0), CPUTimes(user=0.0, idle=1.0))
    assert meter.read().steal == (0.0 if tells else None)


def test_others_take_nothing_of_ours_where_a_quota_leaves_them_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four CPUs, half busy, under a quota of one."""
    monkeypatch.setattr(LoadMeter, "_our_seconds", lambda _: 0.0)
    found = meter_of(monkeypatch, CPUTimes(user=0.0, idle=0.0), CPUTimes(user=0.5, idle=0.5), cpus=4).read()
    assert (found.utilisation, found.others) == (0.0, 0.0)


def test_load_is_a_fraction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of two CPUs that were both busy for a second, under a quota of one."""
    monkeypatch.setattr(LoadMeter, "_our_seconds", lambda _: 0.0)
    found = meter_of(monkeypatch, CPUTimes(user=0.0, idle=0.0), CPUTimes(user=1.0, idle=0.0), cpus=2).read()
    assert (found.utilisation, found.others) == (1.0, 1.0)
