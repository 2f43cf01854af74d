"""`suite submit` as a vendor types it: from runs to a submission that a reviewer can check."""

# ruff: noqa: F811 (the fixtures of tests/submit)

import json
import shutil

import pytest
import yaml

from suite.errors import UserError
from suite.review.__main__ import main as review
from suite.review.model import report
from suite.rules.seals import SEAL
from suite.submit.__main__ import main
from tests.command import refuses
from tests.command import run as run_command
from tests.rules.editor import Evidence
from tests.rules.evidence_maker import write_result
from tests.submit.conftest import ORG, PLACE, files, head, runs, small, submit, told, write_committed  # noqa: F401


def test_complete_submission_passes_its_review(submit, told, capsys):
    assert submit(f"description={told}") == 0
    printed = capsys.readouterr().out
    assert f"{PLACE}: 3 of 3 runs reached the target, time to quality 30.0 s (olympic mean of 3 runs)" in printed
    assert "complete" in printed
    assert "Missing" not in printed
    assert review([str(submit.folder)]) == 0
    made = report(submit.folder)
    assert made.verdict == "pass"
    assert {finding.rule for finding in made.findings} <= {"convergence.2"}
    seal = json.loads((submit.folder / SEAL).read_text())
    assert (seal["org"], seal["division"], seal["category"], seal["missing"]) == (ORG, "closed", "available", [])
    assert seal["results"][0]["revision"] == head()


def test_the_review_that_is_named_is_of_the_same_data(submit, told, tmp_path, capsys):
    assert submit(f"description={told}", f"data_dir={tmp_path}") == 0
    assert f"review    suite review {submit.folder} data_dir={tmp_path}\n" in capsys.readouterr().out


def test_all_that_is_missing_is_listed_at_once_and_nothing_is_written(submit, runs, capsys):
    shutil.rmtree(runs / "run_3")
    for index in (1, 2):
        Evidence(runs / f"run_{index}").edit_config(lambda values: values.update(runs=2, seeds=values["seeds"][:2]))
        Evidence(runs / f"run_{index}").edit("suite_config", lambda record: record["metadata"].update(runs=2))
        Evidence(runs / f"run_{index}").recode(dirty=True)
    assert submit() == 1
    printed = capsys.readouterr()
    for text in ("cooling", "host_networking", "3 runs of image_classification/small", "with changes: commit"):
        assert text in printed.out
    assert "accelerator_interconnect" not in printed.out  # it has none
    assert printed.err.count("\n") == 1
    assert "partial=true" in printed.err
    assert not submit.folder.exists()
    assert submit("partial=true") == 0
    missing = json.loads((submit.folder / SEAL).read_text())["missing"]
    assert any("cooling" in each for each in missing)
    assert any("3 runs" in each for each in missing)
    assert "partial" in capsys.readouterr().out
    assert review([str(submit.folder)]) == 1
    assert {f.rule for f in report(submit.folder).findings if f.severity == "fail"} == {"package.9"}  # of changed code


def test_what_breaks_a_rule_is_never_written(submit, runs, told, capsys):
    Evidence(runs / "run_2").edit("suite_cost", lambda record: record.update(value=1e-9))
    assert submit(f"description={told}", "partial=true") == 1
    printed = capsys.readouterr()
    assert f"{PLACE}/run_2/log.txt" in printed.out
    assert "measurement.3" in printed.out
    assert not submit.folder.exists()


def test_the_same_again_writes_nothing(submit, told, capsys):
    submit(f"description={told}")
    before = {path: path.stat().st_mtime_ns for path in submit.folder.rglob("*")}
    assert submit(f"description={told}") == 0
    assert "nothing to add" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in submit.folder.rglob("*")} == before


def test_partial_submission_is_completed_later(submit, told, capsys):
    submit("partial=true")
    before = files(submit.folder)
    assert submit(f"description={told}") == 0
    after = files(submit.folder)
    changed = {path for path in after if before.get(path) != after[path]}
    assert changed == {SEAL, "systems/cpu_torch.json"}
    assert json.loads(after[SEAL])["missing"] == []
    assert submit("partial=true") == 0  # what is filled in stays
    assert files(submit.folder) == after


def test_more_runs_are_added(submit, told, tmp_path, capsys):
    submit(f"description={told}")
    before = files(submit.folder)
    assert submit(f"description={told}", "system=another") == 1  # copies of the runs that are there
    assert "runs.8" in capsys.readouterr().out
    more = write_committed(tmp_path / "more", seed=900)
    words = [f"org={ORG}", "category=available", str(more), f"out={tmp_path / 'out'}"]
    assert main([*words, "system=another", f"description={told}"]) == 0
    after = files(submit.folder)
    assert {path for path in before if before[path] != after[path]} == {SEAL}
    assert len(json.loads(after[SEAL])["results"]) == 2
    assert report(submit.folder).verdict == "pass"


def test_nothing_is_overwritten(submit, told, runs, tmp_path):
    submit(f"description={told}")
    before = files(submit.folder)
    shutil.rmtree(runs)
    write_result(runs, 3, seed=500)
    mend = f"; to mend what was written move {submit.folder} away and give the command again with all its runs="
    with pytest.raises(UserError, match=f"holds another result already: nothing is overwritten{mend}$"):
        submit(f"description={told}")
    with pytest.raises(UserError, match="is of category=available: give another out="):
        main([f"org={ORG}", "category=preview", f"runs={runs}", f"out={tmp_path / 'out'}"])
    assert files(submit.folder) == before


def test_description_is_not_changed_once_it_is_filled_in(submit, told):
    submit(f"description={told}")
    before = files(submit.folder)
    told.write_text(told.read_text().replace("cooling: as a person says", "cooling: liquid"))
    said = "cooling: as a person says; this result says liquid: nothing is overwritten; to mend what was written move"
    with pytest.raises(UserError, match=said):
        submit(f"description={told}")
    assert files(submit.folder) == before


def test_what_was_detected_otherwise_is_another_machine(submit, runs):
    submit("partial=true")
    for path in sorted(runs.iterdir()):
        Evidence(path).edit_system(lambda values: values["description"].update(host_memory_capacity="9 GB"))
    said = "says 9 GB: give another machine a name of its own, system=NAME; nothing is overwritten; to mend what was"
    with pytest.raises(UserError, match=said):
        submit("partial=true")


def test_a_description_of_two_systems_may_come_with_the_results_of_one(submit, told, runs, tmp_path):
    submit(f"description={told}", "system=first")
    shutil.rmtree(runs)
    write_committed(runs, seed=900)
    values = yaml.safe_load(told.read_text())
    told.write_text(yaml.safe_dump({**values, "first": {"cooling": "air"}, "second": {"cooling": "water"}}))
    assert submit(f"description={told}", "system=second") == 0
    assert json.loads((submit.folder / "systems/second.json").read_text())["cooling"] == "water"


def test_submission_that_was_changed_is_not_added_to(submit, told):
    submit(f"description={told}")
    (submit.folder / PLACE / "result_1.txt").write_text("")
    with pytest.raises(UserError, match=r"result_1\.txt is not as submission\.json has it"):
        submit(f"description={told}")


def test_what_a_crash_left_is_gone_on_from(submit, told):
    submit(f"description={told}")
    whole = files(submit.folder)
    (submit.folder / SEAL).unlink()
    shutil.rmtree(submit.folder / PLACE / "run_3")
    assert submit(f"description={told}") == 0
    assert files(submit.folder) == whole
    (submit.folder / SEAL).unlink()
    (submit.folder / PLACE / "result_0.txt").write_text("another")
    with pytest.raises(UserError, match="nothing is overwritten"):
        submit(f"description={told}")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["org=a"], "category= and runs= must be given"),
        (["org=a  b", "category=cloud", "."], "org=a  b has a space too many"),
        (["org=../..", "category=cloud", "."], "has neither letters nor digits"),
        (["org=a", "category=cloudy", "."], "did you mean 'cloud'"),
        (["org=a", "category=cloud", "division=close", "."], "did you mean 'closed'"),
        (["org=a", "category=cloud", "partial=yes", "."], "neither true nor false"),
        (["org=a", "category=cloud", "nowhere"], "cannot submit nowhere: no such folder"),
        (["org=a", "category=cloud", "."], "holds no evidence"),
        (["org=a", "category=cloud", "a.zip"], "a.zip is an archive: unpack it"),
        (["org=a", "category=cloud", "runs=~/b"], "cannot submit home/b: no such folder"),
        (["org=a", "category=cloud", "runs=,~/b"], "cannot submit home/b: no such folder"),
        (["org=a", "org=b"], "org= is given twice"),
        ([""], "an empty word names nothing: give a value, or leave it out"),
        (["orgg=a"], "did you mean 'org'"),
        (["--org", "a"], "written name=value"),
        (["verify=nowhere"], "no such folder"),
    ],
)
def test_a_mistake_is_one_line(words, answer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "home")
    (tmp_path / "a.zip").touch()
    refuses(main, words, answer)


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ("coooling: air", "did you mean 'cooling'"),
        ("cooling: [air]", "cooling is ['air'], not a text"),
        ("other: {cooling: air}", "unknown system"),
        ("status: Preview", "unknown field"),
        ("- cooling", "not a mapping"),
        ("a: &b c", "alias"),
        ("host_memory_capacity: 1 TB", "detected was 8 GB"),
    ],
)
def test_a_mistake_in_the_description_is_one_line(content, answer, submit, tmp_path):
    path = tmp_path / "machine.yaml"
    path.write_text(content)
    with pytest.raises(UserError) as error:
        submit(f"description={path}")
    assert answer in str(error.value)


def test_is_a_command_that_explains_itself(tmp_path):
    done = run_command(tmp_path, "suite.submit", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    for word in ("org=", "description=", "partial=", "sign=", "verify="):
        assert word in done.stdout
    done = run_command(tmp_path, "suite.submit", "org=a", "category=cloud", "nowhere")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
