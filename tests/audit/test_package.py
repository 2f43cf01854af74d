"""From `suite.new` to the audit of a package: code of one's own goes all the way; an auditor needs nothing else."""

import json
import shutil

import pytest

from suite.check.__main__ import main as check
from suite.config.folder import ROOT
from suite.new import main as new
from suite.record.evidence import LOG
from suite.rules.seals import SEAL
from suite.submit.__main__ import main as submit
from tests.audit.conftest import altered, audited, needs_isolation, trained
from tests.rules.editor import Evidence
from tests.submit.conftest import resealed

ORG = "someone"


@needs_isolation
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


@needs_isolation
@pytest.mark.slow
def test_a_reference_of_a_revision_that_nobody_has_is_held_to_the_auditor_s(tmp_path, capsys):
    project = altered(tmp_path, "hyper.head_learning_rate * rate)", "1.3 * hyper.head_learning_rate * rate)")
    made = trained(tmp_path, project, "seed=11", f"submitter={ORG}")
    assert submit([f"org={ORG}", "category=research", f"runs={made}", f"out={tmp_path / 'all'}", "partial=true"]) == 0
    package, revision = tmp_path / "all" / ORG, "a" * 40
    (run,) = package.glob("results/*/*/run_1")
    Evidence(run).recode(revision=revision)
    shutil.copy(run / LOG, run.parent / "result_0.txt")
    (code,) = package.glob("benchmarks/*/implementations/*")
    place = code.rename(code.with_name(revision[:12]))
    torch = "reference_impls/image_classification/torch.py"
    shutil.copy(project / torch, place / torch)
    (result,) = json.loads((package / SEAL).read_text())["results"]
    told = {**result, "revision": revision, "implementation": place.relative_to(package).as_posix()}
    resealed(package, results=[told])
    assert audited(capsys, package, "blocks=1", "draw=01")[0] == 0
    code, report, failed = audited(capsys, package, "blocks=1", "draw=01", "equivalence=true")
    assert (code, failed) == (1, {"audit.9"}), report["findings"]
