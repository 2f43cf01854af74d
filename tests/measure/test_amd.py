"""AMD's accelerators, as AMD SMI's Python interface describes them; none is here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from zeus.device.gpu import amd as zeus

from suite import config, doctor
from suite.measure import accelerators, machine, noise, systems
from suite.measure.accelerators import amd
from suite.measure.accelerators.devices import Accelerator
from suite.measure.energy import energy
from suite.measure.sampler import Counters, Sampler
from suite.measure.samples import read_samples
from tests.measure import fakes
from tests.measure.amd_smi import Card, install, unsupported

T0 = 1_700_000_000_000
VARIABLES = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


@pytest.fixture(autouse=True)
def _rocm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A machine with ROCm and without NVML."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    fakes.install(monkeypatch)
    (tmp_path / "kfd").touch()
    monkeypatch.setattr(amd, "KFD", tmp_path / "kfd")
    monkeypatch.setattr(doctor, "_unusable", lambda found: iter(()))  # it imports every framework, for seconds
    yield
    amd._manager.cache_clear()


def test_a_machine_of_amds_accelerators_is_the_system_that_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Card(0))
    found = machine.detect()
    assert [(each.name, each.memory_gb, each.architecture) for each in found.accelerators] == [
        ("AMD Instinct MI300X", 192.0, "gfx942")
    ]
    assert (found.library, found.driver) == ("amdsmi", "AMD driver 6.14.5, ROCm 7.0.2")
    system = systems.system_here("auto", found)
    assert system == config.system("mi300x")
    assert systems.precision_of(system, found) == "bf16"


@pytest.mark.parametrize(
    ("architecture", "precision"),
    [("gfx908", "bf16"), ("gfx90a", "bf16"), ("gfx1030", "fp16"), ("gfx1100", "bf16"), ("gfx906", "fp16")],
)
def test_precision_follows_the_architecture(architecture: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Card(0, name="AMD X", architecture=architecture))
    found = machine.detect()
    assert systems.precision_of(systems.system_here("auto", found), found) == precision


@pytest.mark.parametrize(
    ("settings", "visible"),
    [
        ({}, [0, 1, 2, 3]),
        ({"HIP_VISIBLE_DEVICES": "2,0"}, [2, 0]),
        ({"CUDA_VISIBLE_DEVICES": "3"}, [3]),
        ({"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "3"}, [1]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-3a,1"}, [3, 1]),
        ({"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "1"}, [3]),
        ({"HIP_VISIBLE_DEVICES": "-1"}, []),
    ],
)
def test_those_that_rocm_shows_are_found_in_hips_order(
    settings: dict[str, str], visible: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, *(Card(hip, name=f"AMD {hip}") for hip in (3, 0, 2, 1)))
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    found = machine.detect()
    assert [each.name for each in found.accelerators] == [f"AMD {hip}" for hip in visible]
    assert found.hidden_accelerators == 4 - len(visible)


def test_they_are_found_where_those_of_another_maker_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch, fakes.Device("NVIDIA T400", "GPU-a"))
    install(monkeypatch, Card(0), Card(1))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    for setting, visible, hidden in (("0", 1, 1), ("", 0, 1)):
        monkeypatch.setenv("HIP_VISIBLE_DEVICES", setting)
        found = machine.detect()
        assert (len(found.accelerators), found.hidden_accelerators) == (visible, hidden)


@pytest.mark.parametrize(("nodes", "visible"), [((129, 130), [2]), ((), [1])])
def test_those_whose_node_cannot_be_opened_count_for_none_unless_none_can(
    nodes: tuple[int, ...], visible: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container with some of the host's."""
    monkeypatch.setattr(amd, "DRI", tmp_path)
    for node in nodes:
        (tmp_path / f"renderD{node}").touch()
    install(monkeypatch, *(Card(hip, name=f"AMD {hip}", render=128 + hip) for hip in range(3)))
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
    assert [each.name for each in machine.detect().accelerators] == [f"AMD {hip}" for hip in visible]


def test_their_energy_and_load_are_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cards = Card(1, joules=2000.0), Card(0, joules=1000.0, busy=25)
    install(monkeypatch, *cards)
    times = iter(range(T0, T0 + 10**6, 1000))

    def clock() -> int:
        zeus.time.sleep(1.0)
        return next(times)

    made = Sampler(tmp_path / "power.csv", clock, None, "gpu")
    made.start()
    made.stop()
    samples = read_samples(tmp_path / "power.csv")
    assert samples[1].utilisation == 0.5
    used = energy(samples, samples[0].time_ms, samples[-1].time_ms, None, library="amdsmi")
    assert (used.source, used.mean_w) == ("amdsmi", pytest.approx(1000.0))
    assert made.so_far()[1] == "amdsmi"


def test_the_half_second_in_which_a_counter_is_tried_is_before_the_first_row(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, card := Card(0))
    counters = Counters("gpu")
    before = card.joules
    assert counters.joules()[0] == before


@pytest.mark.parametrize(
    "card", [Card(1, counts=0.01), Card(1, watts=0), Card(1, partition="CPX")], ids=["wrong", "idle", "part"]
)
def test_a_counter_that_does_not_fit_the_power_or_is_of_the_whole_is_none(
    card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Card(0), card)
    assert Counters("gpu").joules()[0] is None
    install(monkeypatch, Card(0), Card(1, partition=None))
    assert Counters("gpu").joules()[0] is not None


@pytest.mark.parametrize("without", ["energy_count", "power_info"])
def test_one_whose_energy_cannot_be_told_is_there_and_measured_all_the_same(
    without: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Card(0))
    monkeypatch.setattr(zeus.amdsmi, f"amdsmi_get_{without}", unsupported)
    counters = Counters("gpu")
    assert counters.joules()[0] is None
    assert counters.accelerator_utilisation() == 0.75
    assert len(machine.detect().accelerators) == 1


@pytest.mark.parametrize(
    ("settings", "joules"),
    [({"HIP_VISIBLE_DEVICES": "GPU-1a"}, 1001), ({"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "1"}, 1002)],
)
def test_the_energy_is_that_of_those_that_rocm_shows(
    settings: dict[str, str], joules: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, *(Card(hip, joules=1000 + hip, watts=10) for hip in range(3)))
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert Counters("gpu").joules()[0] == pytest.approx(joules + 5)  # the half second in which it is tried
    assert {name: os.environ[name] for name in VARIABLES if name in os.environ} == settings


def test_a_part_of_an_accelerator_is_named_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Card(0, partition="CPX"))
    assert machine.detect().accelerators[0].name == "AMD Instinct MI300X CPX"


def test_what_disturbs_them_is_noise_and_a_power_cap_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "WINDOW_S", 0.01)
    install(monkeypatch, Card(0), Card(1, violations=("active_hbm_thrm", "active_vr_thrm"), pids=(1,)))
    reasons = noise.before(machine.detect()).reasons
    assert "accelerator 1 is slowed down (heat)" in reasons
    assert "1 other process on accelerator 1" in reasons
    assert not any("accelerator 0" in reason for reason in reasons)


def test_a_kind_that_tells_little_is_measured_as_far_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Card(0, busy="N/A"))
    for name in ("gpu_process_list", "violation_status"):
        monkeypatch.setattr(zeus.amdsmi, f"amdsmi_get_{name}", unsupported)
    found = accelerators.find()
    assert found is not None
    (device,) = found.devices
    assert (device.utilisation(), device.processes(), device.slowdowns()) == (None, None, set())


def test_one_that_does_not_say_what_it_is_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Card(0))
    for name in ("gpu_asic_info", "gpu_memory_total"):
        monkeypatch.setattr(zeus.amdsmi, f"amdsmi_get_{name}", unsupported)
    found = machine.detect()
    assert found.accelerators == (Accelerator("AMD", found.memory_gb, "unknown", False),)


def test_a_driver_that_does_not_tell_hips_order_is_taken_in_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Card("N/A", name="AMD first"), Card("N/A", name="AMD second"))
    assert [each.name for each in machine.detect().accelerators] == ["AMD first", "AMD second"]
    assert Counters("gpu").joules()[0] is None  # which of them a counter is of, nobody knows


def test_without_amd_smi_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    assert machine.detect().accelerators == ()
    monkeypatch.setattr(zeus, "amdsmi_is_available", lambda: False)
    assert machine.detect().accelerators == ()


def test_an_amd_smi_that_is_too_old_is_none_and_doctor_names_the_oldest(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Card(0))
    monkeypatch.delattr(zeus.amdsmi, "amdsmi_get_gpu_enumeration_info")
    assert machine.detect().accelerators == ()
    assert doctor.main([]) == 0
    assert "that of ROCm, 6.4 or newer" in capsys.readouterr().out


def test_doctor_says_where_amd_smi_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zeus, "amdsmi_is_available", lambda: False)
    assert doctor.main([]) == 0
    assert "pip install amdsmi==VERSION" in capsys.readouterr().out
    install(monkeypatch, Card(0))
    assert doctor.main([]) == 0
    assert "pip install amdsmi" not in capsys.readouterr().out


def test_doctor_names_them_and_what_measures_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Card(0), Card(1))
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
    assert doctor.main([]) == 0
    shown = capsys.readouterr().out
    assert "1 x AMD Instinct MI300X, 192 GB; 1 hidden by" in shown
    assert "AMD driver 6.14.5, ROCm 7.0.2" in shown
    assert "accelerators (amdsmi)" in shown
    assert "hw=mi300x:" in shown
