from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest

from suite.measure import cgroup, noise
from suite.measure.load import Load, LoadMeter
from suite.measure.samples import Sample
from tests.measure import fakes

T0 = 1_700_000_000_000


def samples(others: float | None, steal: float | None, rows: int = 5) -> list[Sample]:
    return [Sample(T0 + i * 1000, None, None, None, 1.0, steal, others) for i in range(rows)]


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine on which nothing else happens."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(noise, "WINDOW_S", 0.01)
    monkeypatch.setattr(noise, "CPU_FOLDER", tmp_path)
    monkeypatch.setattr(LoadMeter, "read", lambda meter: Load(0.5, 0.0, 0.0))
    monkeypatch.setattr(cgroup, "throttled_ms", lambda: None)
    fakes.install(monkeypatch)


def test_quiet_before() -> None:
    found = noise.before(fakes.machine())
    assert not found.noisy
    assert found.figures == {"window_s": 0.01, "others": 0.0, "steal": 0.0}


def test_load_of_others_and_steal_are_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoadMeter, "read", lambda meter: Load(0.9, 0.03, 0.06))
    assert noise.before(fakes.machine()).reasons == (
        "other processes took 6.0% of the CPUs",
        "the hypervisor stole 3.0% of the CPUs' time",
    )


def test_other_processes_on_an_accelerator_are_noise_and_ours_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        pids = (os.getpid(), child.pid, os.getppid(), 2**30)  # the last is of another container
        fakes.install(monkeypatch, fakes.Device("NVIDIA L4", "GPU-a", pids=pids))
        found = noise.before(fakes.machine("NVIDIA L4"))
    finally:
        child.communicate(b"\n")
    assert found.reasons == ("1 other process on accelerator 0",)
    assert found.figures["other_accelerator_processes"] == 1


def test_workers_that_torchrun_or_srun_started_beside_this_one_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch, *(fakes.Device("NVIDIA L4", name, pids=(os.getppid(),)) for name in ("GPU-a", "GPU-b")))
    found = noise.before(fakes.machine("NVIDIA L4", "NVIDIA L4"), [os.getppid()])
    assert found.reasons == ()
    assert found.figures["other_accelerator_processes"] == 0


def test_a_driver_that_is_too_old_to_name_processes_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch, fakes.Device("NVIDIA L4", "GPU-a"))

    def unknown(handle: object) -> None:
        raise pynvml.NVMLLibraryMismatchError("Unversioned function called and the pyNVML version does not match")

    monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses", unknown)
    found = noise.before(fakes.machine("NVIDIA L4"))
    assert found.reasons == ()
    assert found.figures["other_accelerator_processes"] is None


def test_a_slowed_accelerator_is_noise_and_a_power_cap_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    hot = pynvml.nvmlClocksEventReasonHwThermalSlowdown | pynvml.nvmlClocksEventReasonSwThermalSlowdown
    fine = pynvml.nvmlClocksEventReasonSwPowerCap | pynvml.nvmlClocksEventReasonGpuIdle
    fakes.install(
        monkeypatch,
        fakes.Device("NVIDIA L4", "GPU-a", slowdowns=fine),
        fakes.Device("NVIDIA L4", "GPU-b", slowdowns=hot),
    )
    found = noise.before(fakes.machine("NVIDIA L4", "NVIDIA L4"))
    assert found.reasons == ("accelerator 1 is slowed down (heat)",)


def test_what_came_to_an_accelerator_since_is_noise_and_workers_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, quiet_load = fakes.machine("NVIDIA L4"), Load(0.5, 0.0, 0.0)
    fakes.install(monkeypatch, fakes.Device("NVIDIA L4", "GPU-a"))
    quiet, of_worker = noise.before(machine), noise.before(machine, [os.getppid()])
    hot = pynvml.nvmlClocksEventReasonHwThermalSlowdown
    fakes.install(monkeypatch, fakes.Device("NVIDIA L4", "GPU-a", slowdowns=hot, pids=(os.getppid(),)))
    slow, stranger = "accelerator 0 is slowed down (heat)", "1 other process on accelerator 0"
    assert noise.during(machine, quiet, []).reasons == (slow, stranger)
    assert noise.meanwhile(machine, quiet, quiet_load).reasons == (slow, stranger)
    assert noise.during(machine, of_worker, []).reasons == (slow,)
    assert noise.watched(machine)() == [slow, stranger]


def test_what_disturbed_before_is_told_though_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = iter([Load(0.9, 0.0, 0.06), Load(0.5, 0.0, 0.0)])
    monkeypatch.setattr(LoadMeter, "read", lambda meter: next(loads))
    assert noise.watched(fakes.machine())() == ["other processes took 6.0% of the CPUs"]


@pytest.mark.parametrize(
    ("others", "steal", "throttled", "reason"),
    [
        (noise.MAX_OTHERS, noise.MAX_STEAL, {"the CPU": 100.0}, None),
        (None, None, {}, None),
        (0.051, 0.0, {}, "other processes took 5.1% of the CPUs"),
        (0.0, 0.021, {}, "the hypervisor stole 2.1% of the CPUs' time"),
        (0.0, 0.0, {"accelerator 1": 200.0}, "accelerator 1 was throttled for 2.0% of the time"),
        (0.0, 0.0, {"the CPU quota": 310_000.0}, "the CPU quota was throttled for 100.0% of the time"),
    ],
)
def test_the_verdict_on_a_run(
    others: float | None, steal: float | None, throttled: dict[str, float], reason: str | None
) -> None:
    found = noise.judge(samples(others, steal), throttled, seconds=10)
    assert found.reasons == ((reason,) if reason else ())
    assert found.noisy == bool(reason)
    assert (found.figures["others"], found.figures["steal"]) == (pytest.approx(others), pytest.approx(steal))


def test_a_single_noisy_node_makes_the_run_noisy_and_is_named() -> None:
    loud = [each._replace(node=2) for each in samples(0.06, 0.0)]
    found = noise.judge([*samples(0.0, 0.0), *loud], {}, 10)
    assert found.reasons == ("node 2: other processes took 6.0% of the CPUs",)
    assert found.figures["others"] == 0.0  # the leader's
    throttled = noise.judge([*samples(0.0, 0.0), *loud], {"the CPU": 5000.0}, 10)  # as the leader's counters tell
    assert throttled.reasons == ("the CPU was throttled for 50.0% of the time", *found.reasons)


def test_a_sample_weighs_as_long_as_it_lasted() -> None:
    long = Sample(T0 + 14_000, None, None, None, 1.0, 0.0, 0.0)
    short = [each._replace(others=0.5) for each in samples(0.0, 0.0)]
    assert noise.judge([*short, long], {}, 10).figures["others"] == pytest.approx(0.5 * 4 / 14)


def test_a_pause_between_samples_weighs_nothing() -> None:
    calm = samples(0.0, 0.0)
    late = [each._replace(time_ms=each.time_ms + 10**6, others=0.0) for each in calm]
    late[0] = late[0]._replace(others=1.0)  # stands for the pause
    assert not noise.judge([*calm, *late], {}, 10).noisy


def test_during_counts_throttling_since_before(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = fakes.machine("NVIDIA L4")
    fakes.install(monkeypatch, fakes.Device("NVIDIA L4", "GPU-a"))
    monkeypatch.setattr(noise, "usable_cpus", lambda: 2)
    monkeypatch.setattr(cgroup, "throttled_ms", lambda: 5000.0)
    quiet = noise.before(machine)
    assert quiet.throttled_ms == {"the CPU quota": 2500.0, "accelerator 0": 7.0}
    assert not quiet.noisy
    assert noise.during(machine, quiet, samples(0.0, 0.0)).figures["throttled_ms"] == {
        "the CPU quota": 0,
        "accelerator 0": 0,
    }
    monkeypatch.setattr(cgroup, "throttled_ms", lambda: 9000.0)
    found = noise.during(machine, quiet, samples(0.0, 0.0))
    assert found.noisy
    assert found.reasons[0].startswith("the CPU quota was throttled")
    silent = replace(quiet, throttled_ms={"accelerator 0": 7.0})  # the quota told nothing before the run
    assert noise.during(machine, silent, []).figures["throttled_ms"] == {"accelerator 0": 0}


def test_thermal_counters_of_the_cpu_are_a_mean_over_its_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that the run may use; the third has no counter."""
    monkeypatch.setattr(noise, "usable_indices", lambda: [0, 1, 3])
    for index, ms in enumerate([100, 300, 0]):
        folder = tmp_path / f"cpu{index}" / "thermal_throttle"
        folder.mkdir(parents=True)
        (folder / "core_throttle_total_time_ms").write_text(f"{ms}\n")
    assert noise.throttled_ms(fakes.machine()) == {"the CPU": 200.0}
