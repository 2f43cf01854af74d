from __future__ import annotations

import platform
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from suite import config
from suite.config import folder
from suite.errors import UserError
from suite.measure import cgroup, machine, processor, systems
from suite.measure.accelerators.devices import Accelerator
from suite.measure.cost import cost, price_per_hour
from tests.measure import fakes

# Names that NVML and AMD SMI report, and the one-accelerator system that each is, if any.
NAMES = {
    "Tesla V100-SXM2-16GB": "v100",
    "Tesla V100-SXM2-32GB": "v100_32gb",
    "Tesla V100-PCIE-16GB": "v100_pcie",
    "Tesla V100-PCIE-32GB": "v100_pcie_32gb",
    "Tesla T4": "t4",
    "NVIDIA T4G": None,
    "NVIDIA T400": None,
    "NVIDIA L4": "l4",
    "NVIDIA L40": None,
    "NVIDIA L40S": None,
    "NVIDIA A10G": "a10g",
    "NVIDIA A10": None,
    "A100-SXM4-40GB": "a100",
    "NVIDIA A100-SXM4-40GB": "a100",
    "NVIDIA A100-SXM4-80GB": "a100_80gb",
    "NVIDIA A100-SXM4-40GB MIG": None,
    "NVIDIA A100-SXM4-40GB MIG 7g.40gb": None,
    "NVIDIA A100-PCIE-40GB": None,
    "NVIDIA A100 80GB PCIe": None,
    "GRID A100D-80C": None,
    "NVIDIA H100 80GB HBM3": "h100",
    "NVIDIA H100 PCIe": "h100_pcie",
    "NVIDIA H100 NVL": "h100_nvl",
    "NVIDIA H200": "h200",
    "NVIDIA H200 NVL": None,
    "NVIDIA GH200 480GB": "gh200",
    "NVIDIA B200": "b200",
    "AMD Instinct MI300X": "mi300x",
    "AMD Instinct MI300X VF": "mi300x",
    "AMD Instinct MI300X CPX": None,
    "AMD Instinct MI300A": None,
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [1, 2, 8])
def test_accelerators_match_their_own_system_and_no_other(name: str, count: int) -> None:
    found = fakes.machine(*[name] * count)
    several = NAMES[name] if count == 1 else f"{NAMES[name]}x{count}"
    expected = several if several in config.names("hw") else None
    named = [config.system(each) for each in config.names("hw")]
    matching = {each.name for each in named if each.accelerator and systems.mismatch(each, found) is None}
    assert matching == ({expected} if expected else set())

    resolved = systems.resolve(config.system("auto"), found)
    assert resolved.name == (expected or "auto")
    assert resolved.device_kind == "gpu"


@pytest.mark.parametrize("name", config.names("hw"))
def test_each_system_file_agrees_with_its_name_and_itself(name: str) -> None:
    system = config.system(name)
    assert system.title
    assert system.default_scale in config.scales("image_classification")
    if name in ("auto", "cpu"):
        assert system.accelerator is None
        assert system.precision is None
    if several := re.search(r"x(\d{1,2})$", name):
        assert system.accelerators_per_node == int(several[1])
    if system.precision and system.peak_tflops:
        assert system.peak_flops(system.precision)
    assert (system.price is None) == (system.price_per_hour is system.price_per_cpu_hour is None)  # its source


def test_auto_without_accelerators_is_cpu() -> None:
    system = systems.resolve(config.system("auto"), fakes.machine())
    assert system == config.system("cpu")
    assert system.device_kind == "cpu"


def test_auto_keeps_what_it_does_not_know_unknown() -> None:
    found = fakes.machine("NVIDIA RTX (6000)", "NVIDIA RTX (6000)")
    system = systems.resolve(config.system("auto"), found)
    assert (system.name, system.accelerators_per_node, system.memory_gb) == ("auto", 2, 80.0)
    assert system.price_per_hour is system.power_ceiling_w is None
    assert system.peak_tflops == {}
    assert systems.resolve(system, found) == system  # as read back from evidence
    assert "hw=auto asks for 2" in (systems.mismatch(system, fakes.machine("NVIDIA L4")) or "")


def test_accelerators_that_differ_have_what_each_of_them_has() -> None:
    both = tuple(Accelerator(f"GPU {gb}", gb, "sm_80", bf16) for gb, bf16 in ((80.0, True), (40.0, False)))
    found = replace(fakes.machine(), accelerators=both)
    system = systems.resolve(config.system("auto"), found)
    assert system.memory_gb == 40
    assert systems.precision_of(system, found) == "fp16"


def test_auto_names_the_file_that_holds_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(folder.CONF, tmp_path / "conf")
    (tmp_path / "conf/hw/mine.yaml").write_text("title: of ours\ndefault_scale: small\nmemory_gb: many\n")
    monkeypatch.setattr(folder, "CONF", tmp_path / "conf")
    folder.load.cache_clear()
    with pytest.raises(UserError, match=r"^conf/hw/mine\.yaml: memory_gb is 'many': "):
        systems.resolve(config.system("auto"), fakes.machine("NVIDIA RTX 6000"))


@pytest.mark.parametrize(
    ("asked", "found", "message"),
    [
        ("h100", fakes.machine(), "1 accelerator matching .*; this machine has none: type hw=cpu or hw=auto"),
        ("h100", fakes.machine("NVIDIA L4"), "has 1 x NVIDIA L4: type hw=l4 or hw=auto"),
        ("h100x8", fakes.machine("NVIDIA H100 80GB HBM3"), "8 accelerators .*: type hw=h100 or hw=auto"),
        ("h100", fakes.machine(*["NVIDIA H100 80GB HBM3"] * 8), "CUDA_VISIBLE_DEVICES, or type hw=h100x8"),
        ("l4", fakes.machine("NVIDIA L4", "Tesla T4"), "1 x NVIDIA L4, 1 x Tesla T4: choose 1 of them"),
    ],
)
def test_a_machine_that_is_not_the_system_is_told_apart_in_one_line(
    asked: str, found: machine.Machine, message: str
) -> None:
    system = systems.resolve(config.system(asked), found)
    assert system == config.system(asked)
    why = systems.mismatch(system, found)
    assert why is not None
    assert re.search(message, why)
    assert "\n" not in why


def test_cpu_is_allowed_on_a_machine_with_accelerators() -> None:
    system = systems.resolve(config.system("cpu"), fakes.machine("NVIDIA H200"))
    assert system.device_kind == "cpu"


def test_overridden_values_survive_auto_and_a_price_set_by_hand_loses_its_source() -> None:
    auto = config.system("auto", {**config.load("hw", "auto"), "price_per_hour": 1.5, "precision": "fp32"})
    found = fakes.machine("NVIDIA L4")
    system = systems.resolve(auto, found)
    assert (system.name, system.price_per_hour, system.precision) == ("l4", 1.5, "fp32")
    assert system.power_ceiling_w == 72
    assert system.price is not None
    assert (system.price.provider, system.price.date, system.price.currency) == ("set by hand", "", "USD")
    assert systems.resolve(config.system("l4"), found).price == config.system("l4").price
    listed = config.load("hw", "l4")
    euros = {**listed, "price_per_hour": 2.1, "price": {**listed["price"], "currency": "EUR"}}
    price = systems.resolve(config.system("l4", euros), found).price
    assert price is not None
    assert (price.provider, price.source, price.currency) == ("set by hand", "hw option", "EUR")
    own = {**listed, "price_per_hour": 2.1, "price": {**listed["price"], "provider": "us", "source": "our invoice"}}
    price = systems.resolve(config.system("l4", own), found).price
    assert price is not None
    assert (price.provider, price.source) == ("us", "our invoice")  # whose source was set with it


def test_what_is_overridden_is_held_to_the_machine_that_is_found() -> None:
    auto = config.system("auto", {**config.load("hw", "auto"), "workers": 2})
    with pytest.raises(UserError, match="one worker for each accelerator"):
        systems.resolve(auto, fakes.machine("NVIDIA L4"))


@pytest.mark.parametrize(
    ("system", "found", "precision"),
    [
        ("cpu", fakes.machine(bf16=True), "bf16"),
        ("cpu", fakes.machine(bf16=False), "fp32"),
        ("cpu", fakes.machine("NVIDIA H200"), "fp32"),
        ("v100", fakes.machine("Tesla V100-SXM2-16GB"), "fp16"),
        ("auto", fakes.machine("NVIDIA L40S", accelerators_bf16=True), "bf16"),
        ("auto", fakes.machine("Quadro RTX 8000", accelerators_bf16=False), "fp16"),
    ],
)
def test_precision(system: str, found: machine.Machine, precision: str) -> None:
    assert systems.precision_of(systems.resolve(config.system(system), found), found) == precision


def test_price_and_ceiling_of_cpus_grow_with_their_number() -> None:
    cpu, found = config.system("cpu"), fakes.machine(cpus=8)
    assert systems.power_ceiling(cpu, found) == pytest.approx(30)
    price = price_per_hour(cpu, found)
    assert price == pytest.approx(0.41056)  # c7a.2xlarge
    assert cost(price, 1800) == pytest.approx(0.20528)
    by_hand = cpu.model_copy(update={"price_per_hour": 0.0})
    assert price_per_hour(by_hand, found) == cost(0.0, 1800) == 0


@pytest.mark.parametrize(("name", "alone"), [("cpu", 0.41056), ("v100", 3.06)])
def test_several_nodes_cost_as_much_as_each_of_them_and_draw_their_power_each(name: str, alone: float) -> None:
    one, found = config.system(name), fakes.machine(cpus=8)
    several = one.model_copy(update={"nodes": 3})
    assert price_per_hour(one, found) == pytest.approx(alone)
    assert price_per_hour(several, found) == pytest.approx(3 * alone)
    assert systems.power_ceiling(several, found) == systems.power_ceiling(one, found)


def test_what_is_not_known_is_none() -> None:
    found = fakes.machine("NVIDIA L40S")
    system = systems.resolve(config.system("auto"), found)
    assert systems.power_ceiling(system, found) is None
    assert price_per_hour(system, found) is None
    assert cost(None, 10) is None


ARM = "processor\t: 0\nFeatures\t: fp asimd bf16\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"


@pytest.mark.parametrize(
    ("cpuinfo", "kernel", "program", "told", "name"),
    [
        (ARM, "Linux", "lscpu", "Vendor ID:   ARM\nModel name:  Neoverse-V2\n", "Neoverse-V2"),
        (ARM, "Linux", "lscpu", "Vendor ID:   0x99\nModel name:  -\n", "arm64"),
        (None, "Darwin", "sysctl", "machdep.cpu.brand_string: Apple M2\n", "Apple M2"),
        (None, "Darwin", "nothing", "", "arm64"),
    ],
)
def test_a_processor_is_named_where_cpuinfo_does_not(cpuinfo, kernel, program, told, name, tmp_path, monkeypatch):
    if cpuinfo:
        (tmp_path / "cpuinfo").write_text(cpuinfo)
    (tmp_path / program).write_text(f"#!/bin/sh\nprintf '%s' '{told}'\n")
    (tmp_path / program).chmod(0o755)
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(platform, "system", lambda: kernel)
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert processor.processor() == (name, None, set())


def test_cores_of_one_socket_count_once_and_either_kind_of_bf16_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cores = [f"processor : {n}\nmodel name : A CPU\nphysical id : {n // 2}\n" for n in range(4)]
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    fakes.install(monkeypatch)
    for flag, bf16 in (("avx512_bf16", True), ("amx_bf16", True), ("avx512f", False)):
        (tmp_path / "cpuinfo").write_text("".join(f"{core}flags : fpu {flag}\n\n" for core in cores))
        found = machine.detect()
        assert (found.cpu_model, found.sockets, found.cpu_bf16) == ("A CPU", 2, bf16)


def test_work_on_accelerators_has_the_room_of_the_smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch, *(fakes.Device("NVIDIA L4", f"GPU-{gb}", memory=gb << 30) for gb in (24, 16, 80)))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert machine.room_of("gpu") == 16 << 30


def test_work_on_cpus_has_no_more_room_than_its_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "memory_left", lambda: 5)
    assert machine.room_of("cpu") == 5
