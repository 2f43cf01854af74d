"""The energy of processors where Zeus's daemon reads their counters, for users who may not."""

from types import SimpleNamespace

import pytest
from zeus.device.cpu.rapl import ZeusdRAPLCPU

from suite.measure.sampler import Counters


class Daemon(ZeusdRAPLCPU):
    """A package of which the daemon tells these millijoules."""

    def __init__(self, cpu_mj: float, dram_mj: float | None) -> None:
        self.told = SimpleNamespace(cpu_mj=cpu_mj, dram_mj=dram_mj)

    def get_total_energy_consumption(self) -> SimpleNamespace:
        return self.told


@pytest.mark.parametrize(("memory", "joules"), [((500.0, 250.0), 0.75), ((None, 250.0), 0.25), ((None, None), None)])
def test_the_daemons_millijoules_are_summed_in_joules(monkeypatch, memory, joules):
    packages = [Daemon(1500.0, memory[0]), Daemon(2000.0, memory[1])]
    monkeypatch.setattr("zeus.device.get_cpus", lambda: SimpleNamespace(cpus=packages))
    assert Counters("cpu").joules() == (None, 3.5, joules)
