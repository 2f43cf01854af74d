"""Accelerators of a maker whom the suite does not know, brought by an installed package."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from suite import config
from suite.errors import UserError
from suite.measure import accelerators, machine, systems
from suite.measure.sampler import Counters, Meter
from suite.measure.samples import format_row, header, samples_of
from tests import distributions
from tests.measure import fakes

MODULE = """\
from suite.measure.accelerators.devices import Accelerator, Found


class Device:
    def describe(self):
        return Accelerator("Example NPU 1", 32.0, "npu1", bf16=True)

    def joules(self):
        return 12.0

    def utilisation(self):
        return 0.5

    def processes(self):
        return set()

    def slowdowns(self):
        return set()

    def throttled_ms(self):
        return None


def find():
    return Found([Device()], 0, "example", "Example driver 1.0")
"""


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    distributions.install(tmp_path, "example-npu")
    (tmp_path / "example_npu-1.dist-info/entry_points.txt").write_text(
        "[suite.accelerators]\nexample = example_npu:find\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    accelerators._makers.cache_clear()
    yield
    accelerators._makers.cache_clear()
    sys.modules.pop("example_npu", None)


def test_an_entry_point_brings_accelerators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "example_npu.py").write_text(MODULE)
    fakes.install(monkeypatch, fakes.Device("NVIDIA L4", "GPU-a"))  # for the display
    found = machine.detect()
    assert [each.name for each in found.accelerators] == ["Example NPU 1"]
    assert (found.library, found.driver) == ("example", "Example driver 1.0")
    system = systems.system_here("auto", found)
    assert (system.title, system.device_kind) == ("1 x Example NPU 1", "gpu")
    assert systems.precision_of(system, found) == "bf16"
    assert Counters("gpu").joules()[0] == 12.0
    assert systems.mismatch(config.system("l4"), found)


@pytest.mark.parametrize("module", [None, "import ctypes\nctypes.CDLL('libnpu.so')", "raise RuntimeError('no device')"])
def test_an_entry_point_that_cannot_be_loaded_is_one_line(tmp_path: Path, module: str | None) -> None:
    if module:
        (tmp_path / "example_npu.py").write_text(module)
    with pytest.raises(UserError, match=r"entry point example = example_npu:find of suite\.accelerators cannot be"):
        machine.detect()


@pytest.mark.parametrize("library", ["Level-Zero", "rapl", ""])
def test_a_library_whose_energy_would_not_pass_review_is_refused_before_the_run(tmp_path: Path, library: str) -> None:
    (tmp_path / "example_npu.py").write_text(MODULE.replace('"example"', repr(library)))
    with pytest.raises(UserError, match=rf"library .*{library}.* is no name of at most 20 small letters"):
        machine.detect()


def test_a_share_of_time_just_above_one_spoils_no_samples(tmp_path: Path) -> None:
    (tmp_path / "example_npu.py").write_text(MODULE.replace("return 0.5", "return 1.0004"))
    meter = Meter("gpu")
    samples = [meter.sample(time_ms) for time_ms in (1000, 2000)]
    content = "".join(f"{line}\n" for line in [header(1), *map(format_row, samples)])
    assert samples_of(content.encode())[1].utilisation == 1.0
