"""`python -m suite.check` as its user sees it, on real tasks."""

import json

import pytest

from suite.check.__main__ import main
from suite.errors import UserError
from tests import distributions
from tests.command import refuses


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "which task? Give task= one of: detection, "),
        (["tsk=speech"], "unknown option 'tsk': did you mean 'task'?"),
        (["task=speach"], "unknown task 'speach': did you mean 'speech'?"),
        (["task=speech", "scale=mimi"], "unknown scale of speech 'mimi': did you mean 'mini'?"),
        (
            ["task=speech", "framework=tensorfow"],
            "unknown framework for speech 'tensorfow': did you mean 'tensorflow'?",
        ),
        (["task=speech", "scale=small", "scale=mini"], "scale= is given twice"),
        (["task=speech", "scale"], "'scale' is not of the form option=value"),
        (["task=speech", "precision=fp32"], "precision= is for an implementation of your own: add implementation=PATH"),
        (["task=speech", "implementation=x", "division=opn"], "unknown division 'opn': did you mean 'open'?"),
        (["task=speech", "implementation=x", "precision=bf17"], "unknown precision 'bf17': did you mean 'bf16'?"),
        (["task=speech", "--jsn"], "unknown option '--jsn': did you mean '--json'?"),
    ],
)
def test_a_mistake_is_one_line(words, said):
    refuses(main, words, said)


def test_data_that_is_not_here_is_a_mistake_only_if_asked_for(tmp_path, capsys):
    words = ["task=recommendation", f"data_dir={tmp_path}", "framework=torch", "--json"]
    with pytest.raises(UserError, match=r"u\.data is missing.*python -m suite\.data fetch recommendation/small"):
        main([*words, "scale=small"])


def test_a_framework_that_is_asked_for_and_not_installed_is_a_mistake(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    distributions.install(tmp_path, "time-to-accuracy", torch=["a-torch"])
    with pytest.raises(UserError, match="image_classification in PyTorch needs a-torch: pip install"):
        main(["task=image_classification", "scale=mini", "framework=torch"])


@pytest.mark.slow
def test_reference_implementations_keep_all_promises(capsys):
    code = main(["task=image_classification", "scale=mini", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert [row for row in rows if row["status"] != "pass"] == []
    assert code == 0
    assert {row["framework"] for row in rows} == {"", "torch", "tensorflow", "tensorflow and torch"}


def test_the_table_shows_expected_found_and_contract(parity, capsys):
    from tests.eighth_task.not_kept import NOT_KEPT

    NOT_KEPT["the sums are missing"][0](parity)
    assert main(["task=parity"]) == 1
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("parity/mini")
    assert lines[at + 1] == "  expected  sums and sizes of the data are declared"
    assert lines[at + 2].startswith("  found     other sums of answer_sides")
    assert lines[at + 3].startswith("  contract  Dataset: Where a benchmark's data comes from")
    assert lines[at + 4] == "  mend      scales:"
    assert lines[-1] == "pass: 22, fail: 1, skipped: 1"


def test_a_sum_that_nobody_declares_is_no_other_sum(parity, capsys):
    from tests.eighth_task.not_kept import declaring

    declaring(lambda scale: scale["dataset"].update(arrays=dict.fromkeys(scale["dataset"]["arrays"])))(parity)
    assert main(["task=parity"]) == 0
    assert "fail" not in capsys.readouterr().out
