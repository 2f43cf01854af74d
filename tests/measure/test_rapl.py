"""The energy of processors where Zeus's daemon reads their counters, for users who may not."""

from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from zeus.device.cpu.rapl import ZeusdRAPLCPU

from suite.measure.sampler import Counters
from tests.measure import fakes


class Daemon(ZeusdRAPLCPU):
    """A zone of which the daemon tells these millijoules, while it answers."""

    def __init__(self, cpu_index: int, cpu_mj: float, dram_mj: float | None) -> None:
        self.cpu_index, self.answers = cpu_index, True
        self.told = SimpleNamespace(cpu_mj=cpu_mj, dram_mj=dram_mj)

    def get_total_energy_consumption(self) -> SimpleNamespace:
        if not self.answers:
            raise httpx.ConnectError("Connection refused")
        return self.told


def of(monkeypatch: pytest.MonkeyPatch, folder: Path, **zones: Daemon) -> Counters:
    """The counters of these zones, by their names."""
    names = [name.replace("_", "-") for name in zones]
    found = SimpleNamespace(cpus=[*zones.values()], rapl_dir=str(fakes.zones(folder, *names)))
    monkeypatch.setattr("zeus.device.get_cpus", lambda: found)
    return Counters("cpu")


@pytest.mark.parametrize(("memory", "joules"), [((500.0, 250.0), 0.75), ((None, 250.0), 0.25), ((None, None), None)])
def test_the_daemons_millijoules_are_summed_in_joules(monkeypatch, tmp_path, memory, joules):
    packages = {"package_0": Daemon(0, 1500.0, memory[0]), "package_1": Daemon(1, 2000.0, memory[1])}
    assert of(monkeypatch, tmp_path, **packages).joules() == (None, 3.5, joules)


def test_the_daemons_platform_whose_energy_holds_the_packages_is_left_out(monkeypatch, tmp_path):
    zones = {"package_0": Daemon(0, 1500.0, None), "psys": Daemon(1, 4000.0, None)}
    assert of(monkeypatch, tmp_path, **zones).joules() == (None, 1.5, None)


def test_a_daemon_that_ends_leaves_the_energy_unknown_until_it_is_back(monkeypatch, tmp_path):
    package = Daemon(0, 1500.0, None)
    counters = of(monkeypatch, tmp_path, package_0=package)
    package.answers = False
    assert counters.joules() == (None, None, None)
    package.answers = True
    assert counters.joules() == (None, 1.5, None)
