"""What a submission holds: MLPerf's layout, the code that was run, and one submitter's results."""

# ruff: noqa: F811 (the fixtures of tests/rules)

import errno
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from filelock import FileLock
from mlperf_logging.package_checker.package_checker import check_training_package
from mlperf_logging.system_desc_checker import system_desc_checker

from suite.config import logkeys
from suite.errors import UserError
from suite.mlperf import packages
from suite.record import states
from suite.record.system import KEYS, STATUSES, git_output
from suite.review.model import report
from suite.rules.seals import SEAL
from suite.submit import installing, staging
from suite.submit.__main__ import main
from tests.conftest import is_here
from tests.rules.conftest import run, sound_run  # noqa: F401
from tests.rules.editor import Evidence
from tests.rules.evidence_maker import write_run
from tests.submit.conftest import ORG, PLACE, files, head, resealed


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
    committed = git_output("show", f"{head()}:tasks/image_classification/__init__.py")
    assert (folder / "tasks/image_classification/__init__.py").read_bytes() == committed


def test_code_behind_a_link_is_not_read(submit, told, tmp_path):
    submit(f"description={told}")
    folder = submit.folder / "benchmarks/image_classification-small/implementations" / head()[:12] / "tasks"
    shutil.move(folder, tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    found = [each for each in report(submit.folder).findings if each.rule == "package.9"]
    assert [each.found for each in found] == ["a link: what it leads to is not read"]


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


def test_log_and_command_name_one_submitter_division_and_category(submit, runs, told, capsys):
    assert submit(f"description={told}", org="another") == 1
    assert "found someone; submit runs that were made with submitter=another" in capsys.readouterr().out
    assert submit(f"description={told}", "division=open") == 1
    assert "found closed; submit runs that were made with division=open" in capsys.readouterr().out
    for index in (1, 2, 3):
        each = Evidence(runs / f"run_{index}")
        each.edit("submission_status", lambda record: record.update(value="cloud"))
        each.edit_config(lambda values: values.update(status="cloud"))
        each.edit_system(lambda values: values["description"].update(status="cloud"))
    assert submit(f"description={told}") == 1
    assert "found cloud; submit runs that were made with category=available" in capsys.readouterr().out


@pytest.mark.parametrize(("org", "folder"), [("Müller AG", "Müller-AG"), ("Acme (EU) / R&D", "Acme-EU-R-D")])
def test_a_name_of_several_words_submits_too(org, folder, submit, runs, told, tmp_path):
    for each in sorted(runs.iterdir()):
        made = Evidence(each)
        made.edit("submission_org", lambda record: record.update(value=org))
        made.edit_config(lambda values: values.update(submitter=org))
        made.edit_system(lambda values: values["description"].update(submitter=org))
    assert submit(f"description={told}", org=org) == 0
    assert json.loads((tmp_path / "out" / folder / SEAL).read_text())["org"] == org
    assert report(tmp_path / "out").verdict == "pass"
    with pytest.raises(UserError, match="neither letters nor digits"):
        submit(f"description={told}", org="???")


def test_a_full_disk_leaves_what_was_sealed(submit, told, monkeypatch):
    assert submit("partial=true") == 0
    before, copy = files(submit.folder), shutil.copyfile

    def full(source, target):
        if target.name == f".{SEAL}.new":
            raise OSError(errno.ENOSPC, "No space left on device")
        return copy(source, target)

    with monkeypatch.context() as disk:
        disk.setattr(installing.shutil, "copyfile", full)
        with pytest.raises(UserError, match="No space left"):
            submit(f"description={told}")
    assert files(submit.folder) == before
    assert submit(f"description={told}") == 0


def test_what_a_killed_command_left_beside_its_place_goes(submit, told):
    assert submit(f"description={told}") == 0
    log = next(submit.folder.rglob("result_0.txt"))
    left = log.with_name(f".{log.name}.new")
    left.write_text("half of a")
    assert submit(f"description={told}") == 0
    assert not left.exists()


def test_log_without_a_submitter_cannot_be_submitted_by_anyone(submit, runs, told, capsys):
    for index in (1, 2, 3):
        each = Evidence(runs / f"run_{index}")
        each.edit_config(lambda values: values.update(submitter="unknown"))
        each.edit("submission_org", lambda record: record.update(value="unknown"))
        each.edit_system(lambda values: values["description"].update(submitter="unknown"))
    for org in ("someone", "another"):
        assert submit(f"description={told}", org=org) == 1
        said = capsys.readouterr().out.partition("What is missing:")[0].splitlines()
        assert len(said) == 2  # a heading, and the fault once
        assert f"found unknown; submit runs that were made with submitter={org}" in said[1]


@pytest.mark.parametrize("word", ["unknown", " Not known", "TBD", "?"])
def test_a_word_that_says_nothing_fills_no_field_in(word, submit, told, capsys):
    told.write_text(yaml.safe_dump({**yaml.safe_load(told.read_text()), "cooling": word}))
    assert submit(f"description={told}") == 1
    assert "systems/cpu_torch.json" in (said := capsys.readouterr().out)
    assert "cooling" in said


def test_one_result_of_a_benchmark_on_a_system(submit, tmp_path):
    write_run(tmp_path / "more" / "run_1", seed=900)
    with pytest.raises(UserError, match=r"two results of image_classification/small on cpu_torch.*runs\.9"):
        submit(str(tmp_path / "more"))


def test_storage_that_shares_its_room_with_others_is_no_other_machine(submit, runs, told):
    for index in (1, 2, 3):
        room = {"host_storage_capacity": f"{810 + index} GB"}
        Evidence(runs / f"run_{index}").edit_system(lambda values, room=room: values["description"].update(room))
    assert submit(f"description={told}") == 0
    described = submit.folder / "systems/cpu_torch.json"
    described.write_text(described.read_text().replace("811 GB", "800 GB"))
    resealed(submit.folder)
    assert submit(f"description={told}") == 0
    assert "800 GB" in described.read_text()


@pytest.mark.parametrize("category", STATUSES)
def test_categories_are_spelled_as_mlcommons_does(category, runs, told, tmp_path):
    words = [f"org={ORG}", f"category={category}", f"runs={runs}", f"out={tmp_path / 'out'}", f"description={told}"]
    assert main(words) == 0
    described = str(tmp_path / "out" / ORG / "systems" / "cpu_torch.json")
    assert system_desc_checker.check_system_desc(described, "training", "6.1.0")[0]


def test_waivers_go_with_the_evidence(submit, runs, told):
    waiver = {"rule": "timing.2", "reason": "slow disk", "reviewer": "me", "date": "2026-01-01"}
    (runs / "run_2" / "waivers.yaml").write_text(yaml.safe_dump({"waivers": [waiver]}))
    assert submit(f"description={told}") == 0
    assert (submit.folder / PLACE / "run_2" / "waivers.yaml").exists()


def test_a_waiver_that_is_withdrawn_breaks_no_seal(submit, runs, told):
    waiver = {"rule": "timing.2", "reason": "slow disk", "reviewer": "me", "date": "2026-01-01"}
    (runs / "run_2/waivers.yaml").write_text(yaml.safe_dump({"waivers": [waiver]}))
    assert submit(f"description={told}") == 0
    (runs / "run_2/waivers.yaml").unlink()
    with pytest.raises(UserError, match=r"run_2/waivers\.yaml is there already, and the runs no longer have it"):
        submit(f"description={told}")
    assert main([f"verify={submit.folder}"]) == 0


def test_a_breach_for_which_a_waiver_is_asked_makes_it_partial(submit, runs, told, capsys):
    for path in sorted(runs.glob("run_*")):
        begun = Evidence(path).records()[0]["time_ms"]
        clock = {"boot": "one boot", "offset_ms": begun - 1_000_000}
        Evidence(path).edit(logkeys.CONFIG, lambda record, told=clock: record["metadata"].update(clock=told))
    assert submit(f"description={told}", "partial=true") == 1
    assert "timing.9" in capsys.readouterr().out
    waiver = {"rule": "timing.9", "reason": "clocks of a virtual machine", "reviewer": "me", "date": "2026-01-01"}
    (runs / "waivers.yaml").write_text(yaml.safe_dump({"waivers": [waiver]}))
    assert submit(f"description={told}") == 1
    assert "a waiver is asked for" in capsys.readouterr().out
    assert submit(f"description={told}", "partial=true") == 0


def test_verify_is_of_one_submission(submit, told, tmp_path):
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


def test_evidence_that_cannot_be_named_is_refused(run, tmp_path):
    run.edit("submission_benchmark", lambda record: record.update(value="../../x"))
    with pytest.raises(UserError, match="no complete evidence"):
        main([f"org={ORG}", "category=cloud", str(run.folder), f"out={tmp_path / 'out'}"])


def test_system_of_a_hostile_name_leads_nowhere(run, tmp_path):
    run.edit("submission_platform", lambda record: record.update(value="../../x"))
    with pytest.raises(UserError, match="is no name"):
        main([f"org={ORG}", "category=cloud", str(run.folder), f"out={tmp_path / 'out'}"])


def test_description_may_speak_of_one_system_alone(submit, told):
    values = yaml.safe_load(told.read_text())
    told.write_text(yaml.safe_dump({**values, "cpu_torch": {"cooling": "water"}}))
    assert submit(f"description={told}") == 0
    assert json.loads((submit.folder / "systems" / "cpu_torch.json").read_text())["cooling"] == "water"


def test_small_states_are_packed_and_sealed(submit, runs, told, capsys):
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
        run = Evidence(runs / f"run_{index}")
        records = [record for record in run.records() if record["key"] != "suite_state"]
        for record in records:
            record["metadata"].pop("state_sha256", None)
        run.write(records)
    assert submit(f"description={told}") == 1
    assert "cannot be trained again in part" in capsys.readouterr().out


def test_two_commands_do_not_write_one_submission(submit, told, tmp_path):
    (tmp_path / "out").mkdir()
    with FileLock(tmp_path / f"out/.{ORG}.lock"), pytest.raises(UserError, match="another command is at work there"):
        submit(f"description={told}")
