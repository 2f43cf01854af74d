"""NVIDIA's accelerators, as NVML tells of them and as CUDA numbers them; none is here."""

from __future__ import annotations

import os

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite import config
from suite.measure import accelerators, machine, systems
from suite.measure.accelerators.devices import Accelerator, chosen_indices
from tests.measure import fakes


def test_detect_reads_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    fakes.install(
        monkeypatch,
        fakes.Device("NVIDIA H200", "GPU-aa11"),
        fakes.Device("NVIDIA A100-SXM4-40GB", "GPU-aa22", mig=True),
    )
    found = machine.detect()
    assert [each.name for each in found.accelerators] == ["NVIDIA H200", "NVIDIA A100-SXM4-40GB MIG"]
    assert found.accelerators[0] == Accelerator("NVIDIA H200", 80.0, "sm_90", True)
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"  # for a framework to number them alike
    assert (found.driver, found.hidden_accelerators) == ("NVIDIA driver 570.1, CUDA 12.8", 0)

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-aa2")
    found = machine.detect()
    assert [each.name for each in found.accelerators] == ["NVIDIA A100-SXM4-40GB MIG"]
    problem = systems.mismatch(config.system("h200"), found)
    assert problem is not None
    assert "CUDA_VISIBLE_DEVICES or its like hides 1" in problem


def test_a_gpu_that_this_process_may_not_open_counts_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a job of SLURM that was given the second of two; NVML's number of it stays."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    fakes.install(monkeypatch, fakes.Device("NVIDIA L4", "GPU-a", closed=True), fakes.Device("NVIDIA L4", "GPU-b"))
    found = accelerators.find()
    assert found is not None
    assert (found.hidden, [device.index for device in found.devices]) == (0, [1])  # type: ignore[attr-defined]


@pytest.mark.parametrize(("setting", "part"), [(None, "1g.5gb"), ("MIG-b", "2g.10gb"), ("0", "1g.5gb")])
def test_a_part_of_a_gpu_is_an_accelerator_of_its_own(
    setting: str | None, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if setting is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    a100 = "NVIDIA A100-SXM4-40GB"
    parts = [
        fakes.Device(f"{a100} MIG {profile}", uuid, memory=size << 30)
        for uuid, profile, size in (("MIG-a", "1g.5gb", 5), ("MIG-b", "2g.10gb", 10))
    ]
    split = fakes.Device(a100, "GPU-a", True, memory=None, parts=tuple(parts))
    fakes.install(monkeypatch, split, fakes.Device("NVIDIA H200", "GPU-b"))  # which CUDA leaves out beside a part
    found = machine.detect()
    gigabytes = {"1g.5gb": 5.0, "2g.10gb": 10.0}[part]
    assert found.accelerators == (Accelerator(f"{a100} MIG {part}", gigabytes, "sm_90", True),)
    assert found.hidden_accelerators == 2
    there = accelerators.find()
    assert there is not None
    assert there.devices[0].joules() is None  # the counter is the whole GPU's


def test_a_driver_without_cuda_s_library_is_named_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container with NVIDIA_DRIVER_CAPABILITIES=utility."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    fakes.install(monkeypatch, fakes.Device("NVIDIA L4", "GPU-a"))
    without = fakes.failing(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
    monkeypatch.setattr(pynvml, "nvmlSystemGetCudaDriverVersion_v2", without)
    assert machine.detect().driver == "NVIDIA driver 570.1"


def test_a_gpu_that_tells_of_no_memory_has_the_machine_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    fakes.install(monkeypatch, fakes.Device("NVIDIA GB10", "GPU-a", memory=None))
    found = machine.detect()
    assert found.accelerators[0].memory_gb == found.memory_gb


def test_detect_without_nvml_finds_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch)
    found = machine.detect()
    assert found.accelerators == ()
    assert found.logical_cpus >= 1
    assert found.memory_gb > 0
    assert found.cpu_model
    assert found.driver is None


@pytest.mark.parametrize(
    ("setting", "chosen"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("-1", []),
        ("2,0", [2, 0]),
        ("1,9,2", [1]),
        ("0,0", [0]),
        (" 1 , 2 ", [1, 2]),
        ("GPU-b", [1]),
        ("GPU-", []),
        ("MIG-1", []),
    ],
)
def test_visible_devices_as_cuda_reads_them(setting: str | None, chosen: list[int]) -> None:
    assert chosen_indices(["GPU-a", "GPU-b", "GPU-c"], setting) == chosen


@given(st.text(max_size=30))
def test_visible_devices_never_fail(setting: str) -> None:
    chosen = chosen_indices(["GPU-a", "GPU-b"], setting)
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= {0, 1}
