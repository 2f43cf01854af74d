"""From `suite.new` to the audit of a package: code of one's own goes all the way; an auditor needs nothing else."""

import shutil

import pytest

from suite.check.__main__ import main as check
from suite.new import main as new
from suite.record.system import ROOT
from suite.submit.__main__ import main as submit
from tests.audit.conftest import audited, trained

ORG = "someone"


@pytest.mark.slow
def test_own_code_is_trained_again_from_its_package_and_held_to_the_reference(tmp_path, capsys):
    ours, submissions = tmp_path / "ours", tmp_path / "submissions"
    assert new([f"implementation={ours}", "task=image_classification"]) == 0
    with (ours / "__init__.py").open("a") as file:
        file.write("OWN_DRAWS = True\n")
    made = trained(tmp_path, ROOT, "seed=11", f"implementation={ours}", f"submitter={ORG}")
    words = ["task=image_classification", "scale=mini", f"implementation={ours}", f"out={made}"]
    assert check(words) == 0, capsys.readouterr().out
    words = [f"org={ORG}", "category=research", f"runs={made}", f"out={submissions}", "partial=true"]
    assert submit(words) == 0, capsys.readouterr().out
    package = shutil.make_archive(tmp_path / "package", "xztar", submissions, ORG)
    for gone in (ours, made, submissions):
        shutil.rmtree(gone)
    code, report, failed = audited(capsys, package, "blocks=1", "draw=01", "equivalence=true")
    assert (code, failed) == (0, set()), report["findings"]
    (block,) = report["blocks"]
    assert block["exact"]
    ((_, trials),) = [each.values() for each in report["equivalence"]]
    assert any(trial["trial"].startswith("the length of a step") for trial in trials)
    assert not any(trial["trial"].startswith("a step from") for trial in trials)
