"""What the evidence of a begun run says of the machine that it was begun on."""

import json
from dataclasses import replace

import pytest

from suite.harness import begun
from tests.measure import fakes

NOW = replace(fakes.machine("AMD Instinct MI300X", cpus=4), library="amdsmi")


@pytest.mark.parametrize(
    ("told", "cpus", "library"),
    [
        ({"detected": {"logical_cpus": 64, "library": "nvml"}}, 64, "nvml"),
        ({"detected": {"logical_cpus": 64}}, 64, None),
        ({"detected": {"logical_cpus": "64"}}, 4, None),
        ({"detected": []}, 4, None),
    ],
)
def test_cost_and_energy_are_of_the_processors_and_by_the_library_that_it_was_begun_with(tmp_path, told, cpus, library):
    """As a review derives them, which reads the same file."""
    (tmp_path / "system.json").write_text(json.dumps(told))
    assert begun.machine(tmp_path, NOW) == replace(NOW, logical_cpus=cpus, library=library)
