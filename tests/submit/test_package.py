"""What a submission holds: MLPerf's layout, the code that was run, and all evidence of its runs."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from mlperf_logging.package_checker.package_checker import check_training_package
from mlperf_logging.system_desc_checker import system_desc_checker

from suite.errors import UserError
from suite.mlperf import packages
from suite.record import git, states
from suite.record.system import KEYS
from suite.review.model import report
from suite.rules.seals import SEAL
from suite.submit import staging
from suite.submit.__main__ import main
from tests.conftest import is_here
from tests.rules.editor import Evidence
from tests.rules.evidence_maker import write_run
from tests.submit.conftest import ORG, PLACE, files, head


def test_layout_is_mlperf_s(submit, told, tmp_path, caplog):
    submit(f"description={told}")
    (group,) = packages.survey(tmp_path / "out", "mlperf-6.1").groups
    assert (group.org, group.system, group.label) == (ORG, "cpu_torch", f"{ORG}/{PLACE}")
    assert group.logs == ["result_0.txt", "result_1.txt", "result_2.txt"]
    described = submit.folder / "systems" / "cpu_torch.json"
    assert list(json.loads(described.read_text())) == list(KEYS)
    valid, name, *_ = system_desc_checker.check_system_desc(str(described), "training", "5.1.0")
    assert (valid, name) == (True, "cpu_torch")
    check_training_package(
        str(submit.folder), "training", "5.1.0", False, False, False, False, False, str(tmp_path / "log")
    )
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    for index in range(3):
        log = submit.folder / PLACE / f"run_{index + 1}" / "log.txt"
        assert log.read_bytes() == (submit.folder / PLACE / f"result_{index}.txt").read_bytes()


def test_code_is_that_of_the_revision_that_was_run(submit, told):
    submit(f"description={told}")
    folder = submit.folder / "benchmarks" / "image_classification-small" / "implementations" / head()[:12]
    names = set(files(folder))
    assert {"reference_impls/image_classification/torch.py", "conf/task/image_classification.yaml"} <= names
    code = "".join((folder / name).read_text() for name in names if name.startswith("reference_impls/"))
    imported = set(re.findall(r"^from (reference_impls\.[\w.]+) import", code, re.MULTILINE))
    assert "reference_impls.torch_shared" in imported
    assert {f"{module.replace('.', '/')}.py" for module in imported} <= names
    assert {name.split("/")[1] for name in names if name.count("/") > 1} == {"image_classification", "task"}
    committed = git.output("show", f"{head()}:tasks/image_classification/__init__.py")
    assert (folder / "tasks/image_classification/__init__.py").read_bytes() == committed


def test_code_behind_a_link_is_not_read(submit, told, tmp_path):
    submit(f"description={told}")
    folder = submit.folder / "benchmarks/image_classification-small/implementations" / head()[:12] / "tasks"
    shutil.move(folder, tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    found = {each.rule: each.found for each in report(submit.folder).findings}
    assert found["package.9"] == "a link: what it leads to is not read"
    assert found["package.1"] == "a symbolic link"


@pytest.mark.parametrize(
    ("git", "said"),
    [
        ({"revision": None, "dirty": None}, "names no git revision"),
        ({"revision": "a" * 40, "dirty": False}, "revision aaaaaaaaaaaa is not in this repository"),
    ],
)
def test_code_that_cannot_be_had_is_missing(git, said, submit, runs, told, capsys):
    for index in (1, 2, 3):
        Evidence(runs / f"run_{index}").recode(**git)
    assert submit(f"description={told}") == 1
    assert said in capsys.readouterr().out
    assert submit(f"description={told}", "partial=true") == 0
    packed = submit.folder / "benchmarks" / "image_classification-small" / "implementations"
    assert (next(packed.iterdir()) / "reference_impls" / "image_classification" / "torch.py").exists()


def test_revision_that_is_an_option_is_refused(submit, runs, told, capsys):
    Evidence(runs / "run_1").recode(revision="--output=x")
    assert submit(f"description={told}", "partial=true") == 1
    assert "model.4" in capsys.readouterr().out


def test_one_result_of_a_benchmark_on_a_system(submit, tmp_path):
    write_run(tmp_path / "more" / "run_1", seed=900)
    with pytest.raises(UserError, match=r"two results of image_classification/small on cpu_torch.*runs\.9"):
        submit(str(tmp_path / "more"))


def test_a_breach_for_which_a_waiver_is_asked_makes_it_partial(submit, runs, told, capsys):
    for path in sorted(runs.glob("run_*")):
        Evidence(path).boot()
    assert submit(f"description={told}", "partial=true") == 1
    assert "timing.9" in capsys.readouterr().out
    waiver = {"rule": "timing.9", "reason": "clocks of a virtual machine", "reviewer": "me", "date": "2026-01-01"}
    (runs / "waivers.yaml").write_text(yaml.safe_dump({"waivers": [waiver]}))
    assert submit(f"description={told}") == 1
    assert "a waiver is asked for" in capsys.readouterr().out
    assert submit(f"description={told}", "partial=true") == 0


def test_verify_is_of_one_submission(submit, told):
    assert submit(f"description={told}") == 0
    with pytest.raises(UserError, match=r"holds no submission\.json: name the folder of one submission"):
        main([f"verify={submit.folder.parent}"])
    with pytest.raises(UserError, match="leave out org="):
        main([f"verify={submit.folder}", "org=x"])


SUBMISSIONS = Path(__file__).resolve().parents[2] / "submissions"
OURS = sorted(path.parent for path in SUBMISSIONS.glob("*/submission.json"))


@pytest.mark.slow
@pytest.mark.parametrize("folder", OURS, ids=[folder.name for folder in OURS])
def test_submission_of_this_repository_holds(folder):
    """Without a benchmark's data its predictions cannot be scored again, and nothing else may be found."""
    assert main([f"verify={folder}"]) == 0
    found = [finding for finding in report(folder).findings if finding.severity != "note"]
    assert {(finding.rule, finding.severity) for finding in found} <= {("quality.6", "error")}
    if all(is_here(each["benchmark"]) for each in json.loads((folder / SEAL).read_text())["results"]):
        assert found == []


def test_small_states_are_packed_and_sealed(submit, runs, told):
    """A reviewer has them at hand, and finds nothing amiss about them."""
    for index in (1, 2, 3):
        path = runs / f"run_{index}" / "states/4000.npz"
        path.parent.mkdir()
        states.write(path, {"weight": np.arange(4.0)}, 4000)
    assert submit(f"description={told}", "states=on request") == 0
    seal = json.loads((submit.folder / SEAL).read_text())
    assert f"{PLACE}/run_2/states/4000.npz" in seal["files"]
    assert [each["states"] for each in seal["results"]] == ["states/ of each run"]
    made = report(submit.folder)
    assert (made.verdict, {finding.rule for finding in made.findings} & {"package.5", "package.6"}) == ("pass", set())


def test_large_states_stay_out_and_it_is_said_where_they_are(submit, runs, told, monkeypatch):
    monkeypatch.setattr(staging, "SMALL", 100)
    path = runs / "run_1" / "states/4000.npz"
    path.parent.mkdir()
    states.write(path, {"weight": np.arange(4.0)}, 4000)
    assert submit(f"description={told}", "states=on request") == 0
    seal = json.loads((submit.folder / SEAL).read_text())
    assert not [path for path in seal["files"] if path.endswith(".npz")]
    assert [each["states"] for each in seal["results"]] == ["on request"]


def test_runs_that_cannot_be_audited_are_missing_something(submit, runs, told, capsys):
    for index in (1, 2, 3):
        Evidence(runs / f"run_{index}").forget_states()
    assert submit(f"description={told}") == 1
    assert "cannot be trained again in part" in capsys.readouterr().out
