from __future__ import annotations

import getpass
import json
import os
import platform
import pwd
import sys
from pathlib import Path

import numpy as np
import pytest

from suite import config
from suite.record import system
from suite.record.environment import environment
from tests.measure import fakes

TORCH = config.framework("torch")
DECLARED = {"submitter": "somebody", "division": "open", "status": "cloud"}


def test_all_keys_of_mlperf_in_order_and_only_texts() -> None:
    found = fakes.machine("NVIDIA H200", "NVIDIA H200")
    h200 = config.system("h200x8")
    description = system.describe(h200, found, TORCH, DECLARED)["description"]
    assert len(description) == 33
    assert tuple(description) == system.KEYS
    assert all(isinstance(value, str) for value in description.values())
    assert description["submitter"] == "somebody"
    assert description["division"] == "open"
    assert description["status"] == "cloud"
    assert description["system_name"] == "h200x8"
    assert description["accelerators_per_node"] == "2"
    assert description["accelerator_model_name"] == "NVIDIA H200"
    assert description["accelerator_memory_capacity"] == "80 GB"
    assert description["host_processor_vcpu_count"] == "4"
    assert description["framework"].startswith("PyTorch")
    assert description["cooling"] == ""


def test_a_run_on_cpus_claims_no_accelerators() -> None:
    found = system.describe(config.system("cpu"), fakes.machine("NVIDIA H200"), TORCH, DECLARED)
    assert found["description"]["accelerators_per_node"] == "0"
    assert found["description"]["accelerator_model_name"] == ""
    assert found["detected"]["accelerators"][0]["name"] == "NVIDIA H200"


def test_versions_are_those_installed_and_nothing_is_imported() -> None:
    before = set(sys.modules)
    software = system.versions()
    assert software["numpy"] == np.__version__
    assert list(software) == sorted(software)
    assert not {"torch", "tensorflow"} & (set(sys.modules) - before)


def installed(folder: Path, name: str, version: str, module: str) -> str:
    """A folder for sys.path, with a package that brings a module."""
    told = folder / f"{name}-{version}.dist-info"
    told.mkdir(parents=True)
    (folder / module).mkdir()
    (folder / module / "__init__.py").touch()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (told / "RECORD").write_text(f"{module}/__init__.py,,\n")
    return str(folder)


def test_of_a_package_that_is_installed_twice_the_version_is_what_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (installed(tmp_path / each, "Twice", each, "twice") for each in ("1.5", "1.4"))
    monkeypatch.setattr(sys, "path", [first, second, *sys.path])
    assert system.versions()["twice"] == "1.5"


def test_a_framework_that_another_package_brings_has_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [each for each in sys.path if "site-packages" not in each]
    monkeypatch.setattr(sys, "path", [installed(tmp_path, "Tensorflow_CPU", "2.20.1", "tensorflow"), *others])
    described = system.describe(config.system("cpu"), fakes.machine(), config.framework("tensorflow"), DECLARED)
    assert described["description"]["framework"] == "TensorFlow 2.20.1"
    assert described["software"]["tensorflow"] == "2.20.1"


def test_no_name_of_a_person_host_or_folder_and_the_same_each_time() -> None:
    text, again = (
        json.dumps(system.describe(config.system("cpu"), fakes.machine(), TORCH, DECLARED)) for _ in range(2)
    )
    assert text == again
    assert str(Path.home()) + "/" not in text
    assert str(system.ROOT) not in text
    for name in (platform.node(), getpass.getuser()):
        assert f'"{name}"' not in text


def test_what_a_library_sets_later_is_not_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch.compile does, which names its cache: the second run of a command is made with it, the first was not."""
    before = environment()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/tmp/torchinductor")
    assert environment() == before


def test_a_user_without_name_and_home_has_an_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(uid)

    for name in ("HOME", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.setattr("suite.record.environment.STARTED", {"LD_LIBRARY_PATH": "/scratch/lib"})
    assert environment()["variables"] == {"LD_LIBRARY_PATH": "/scratch/lib"}


def test_the_environment_tells_what_decides_a_run_and_neither_secret_nor_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "a.user")
    given = {
        "OMP_NUM_THREADS": "3,2",
        "NCCL_P2P_DISABLE": "1",
        "ATEN_CPU_CAPABILITY": "avx2",
        "HIPBLASLT_ALLOW_TF32": "1",
        "AMD_SERIALIZE_KERNEL": "3",
        "ZE_AFFINITY_MASK": "0",
        "LIBTPU_INIT_ARGS": "--xla_tpu_spmd_rng_bit_generator_unsafe=1",
        "GLOO_SOCKET_IFNAME": "eth0",
        "LD_LIBRARY_PATH": f"{Path.home()}/lib:/scratch/a.user/lib",
        "TORCH_LOGS": f"//{'x' * 9000}",
        "XLA_FLAGS": "--to=http://somebody:hidden@host/",
        "TF_API_KEY": "hidden",
        "NCCL_AUTH": "hidden",
        "UNRELATED": "hidden",
    }
    monkeypatch.setattr("suite.record.environment.STARTED", given)
    found = system.describe(config.system("cpu"), fakes.machine(), TORCH, DECLARED)["environment"]
    known = found["variables"]
    assert known["OMP_NUM_THREADS"] == "3,2"
    assert known["LD_LIBRARY_PATH"] == "~/lib:/scratch/~/lib"
    assert (known["NCCL_P2P_DISABLE"], known["ATEN_CPU_CAPABILITY"]) == ("1", "avx2")
    assert {"HIPBLASLT_ALLOW_TF32", "AMD_SERIALIZE_KERNEL", "ZE_AFFINITY_MASK"} <= known.keys()
    assert {"LIBTPU_INIT_ARGS", "GLOO_SOCKET_IFNAME"} <= known.keys()
    assert len(known["TORCH_LOGS"]) == 500
    assert found["threads"] == 3
    assert found["cpus"] == len(os.sched_getaffinity(0))
    assert "hidden" not in json.dumps(found)
