"""What looks odd and is honest passes, with a note where a reader should know of it."""

import pytest

from suite.rules.verdict import review
from tests.rules.evidence_maker import UNKNOWN_REVISION, WITH_H200, described, isolate, write_run
from tests.rules.found import ALWAYS, rules_of


@pytest.fixture(autouse=True)
def isolated(monkeypatch, tmp_path_factory):
    isolate(monkeypatch, tmp_path_factory.mktemp("points"))


def notes(run):
    """The rules that inform of a run that passes."""
    made = review(run.folder)
    assert made.verdict == "pass", made.findings
    return rules_of(made.findings, but=ALWAYS)


def test_a_revision_that_the_reviewer_lacks_is_noted(run):
    run.recode(revision=UNKNOWN_REVISION)
    assert notes(run) == {"model.4"}


def test_a_run_of_no_revision_is_noted_by_one_rule(run):
    run.recode(revision=None, dirty=None)
    assert notes(run) == {"model.3"}


def test_a_machine_with_accelerators_may_run_without_them(run):
    run.edit_system(lambda values: values.update(detected=described("h200", WITH_H200)["detected"]))
    assert notes(run) == {"system.8"}


@pytest.mark.parametrize("version", ["0.0.9", "1.2.3rc1", "0.2.0.dev3"])
def test_another_version_of_the_suite_is_noted(run, version):
    run.edit_config(lambda values: values.update(suite_version=version))
    assert notes(run) == {"system.8"}


def test_the_driver_of_an_accelerator_is_described(tmp_path):
    run = write_run(tmp_path / "run", hw="h200", machine=WITH_H200)

    def change(values):
        values["detected"].update(driver="580.1", cuda="13.0")
        values["description"]["other_software_stack"] += ", NVIDIA driver 580.1, CUDA 13.0"

    run.edit_system(change)
    assert notes(run) == set()


def test_a_clock_some_hours_off_passes(run):
    run.move(-20 * 3_600_000)
    assert notes(run) == set()
