"""Who submits, on which system and in which category: what the command, the logs and a person say of it."""

import json

import pytest
import yaml
from mlperf_logging.system_desc_checker import system_desc_checker

from suite.errors import UserError
from suite.record.system import STATUSES
from suite.review.model import report
from suite.rules.seals import SEAL
from suite.submit.__main__ import main
from tests.rules.editor import Evidence
from tests.submit.conftest import ORG, resealed


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
    assert submit(f"description={told}", org="unknown") == 1
    assert "names its submitter, found unknown; run with submitter=NAME" in capsys.readouterr().out


@pytest.mark.parametrize("word", ["unknown", " Not known", "TBD", "?"])
def test_a_word_that_says_nothing_fills_no_field_in(word, submit, told, capsys):
    told.write_text(yaml.safe_dump({**yaml.safe_load(told.read_text()), "cooling": word}))
    assert submit(f"description={told}") == 1
    assert "systems/cpu_torch.json" in (said := capsys.readouterr().out)
    assert "cooling" in said


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
