"""What is not the reference is found, by one trial or several; what differs from it by rounding alone passes."""

import pytest

from tests.check.equivalence import altered
from tests.check.equivalence.altered import FAULTS, FREEDOMS, IMAGES, ITEMS, WITH_OWN_DRAWS
from tests.check.equivalence.comparing import compared, tensorflow, told

each_fault = pytest.mark.parametrize("fault", FAULTS)
each_freedom = pytest.mark.parametrize("freedom", FREEDOMS)


@each_fault
def test_fault_is_found(fault):
    report = compared(FAULTS[fault], FAULTS[fault].task)
    assert not report.equivalent, told(report)
    assert type(report).model_validate_json(report.model_dump_json()) == report


@each_freedom
def test_freedom_passes(freedom):
    report = compared(FREEDOMS[freedom], FREEDOMS[freedom].task)
    assert report.equivalent, told(report)
    assert all(row.found is not None for row in report.trials if "least time" not in row.trial)


@each_freedom
def test_freedom_passes_in_bf16(freedom):
    report = compared(FREEDOMS[freedom], FREEDOMS[freedom].task, "bf16")
    assert report.equivalent, told(report)


@pytest.mark.parametrize("name", WITH_OWN_DRAWS)
def test_draws_of_its_own_are_held_to_the_same_distribution(name):
    right, candidate = WITH_OWN_DRAWS[name]
    report = compared(candidate, IMAGES, own_draws=True)
    assert report.equivalent == right, told(report)


@pytest.mark.slow
def test_compiled_passes(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # where no killed process has left half a kernel
    report = compared(altered.faulty(change=altered.compiled), IMAGES)
    assert report.equivalent, told(report)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("task", [IMAGES, ITEMS])
def test_references_are_each_others_equals(task, precision):
    report = compared(tensorflow(task), task, precision)
    assert report.equivalent, told(report)
