"""A round's submission: each run was made with the token that the round published."""

import json
import shutil

import pytest

from suite.errors import UserError
from suite.results.reading import Source, read
from suite.review.model import report
from suite.rules.seals import SEAL
from tests.submit.conftest import PLACE, files, resealed, write_committed

TOKEN = "the round of 2026"


@pytest.fixture
def drawn(runs):
    """The runs, made anew with the token."""
    shutil.rmtree(runs)
    write_committed(runs, token=TOKEN)


def test_submission_of_a_round_names_its_token_and_passes(submit, told, drawn):
    assert submit(f"description={told}", f"token={TOKEN}") == 0
    assert json.loads((submit.folder / SEAL).read_text())["token"] == TOKEN
    assert report(submit.folder.parent).verdict == "pass"
    assert [entry.seeds for entry in read(Source(submit.folder)).entries] == [f"drawn by {TOKEN}"]


def test_runs_of_no_round_are_not_submitted_to_one(submit, told, capsys):
    assert submit(f"description={told}", f"token={TOKEN}", "partial=true") == 1
    (said,) = [line for line in capsys.readouterr().out.splitlines() if f"{PLACE}/run_3/log.txt" in line]
    assert said.endswith(f"found null; submit runs that were made with token={TOKEN}")
    assert not submit.folder.exists()


def test_runs_of_one_round_are_not_submitted_to_another(submit, told, drawn, capsys):
    assert submit(f"description={told}", "token=the next") == 1
    assert f"found {TOKEN}; submit runs that were made with token=the next" in capsys.readouterr().out


def test_runs_of_a_round_may_be_submitted_to_none(submit, told, drawn):
    assert submit(f"description={told}") == 0
    before = files(submit.folder)
    with pytest.raises(UserError, match="is of token=None: give another out="):
        submit(f"description={told}", f"token={TOKEN}")
    assert files(submit.folder) == before


@pytest.mark.parametrize("token", ["another", "", "x" * 100_000])
def test_a_seal_of_another_round_breaks_its_rule_alone(token, submit, told, drawn):
    submit(f"description={told}", f"token={TOKEN}")
    resealed(submit.folder, token=token)
    made = report(submit.folder.parent)
    assert {finding.rule for finding in made.findings if finding.severity != "note"} == {"package.7"}


def test_a_seal_whose_token_is_no_text_is_none(submit, told, drawn):
    submit(f"description={told}", f"token={TOKEN}")
    resealed(submit.folder, token=[TOKEN])
    assert "package.6" in {finding.rule for finding in report(submit.folder).findings}
