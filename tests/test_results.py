"""`python -m suite.results` as its user types it."""

import csv
import json
import os
import re
import shutil

import pytest

from suite.errors import UserError
from suite.results.__main__ import main
from tests.command import refuses
from tests.command import run as run_command
from tests.mlperf import maker
from tests.rules.conftest import run, sound_result, sound_run  # noqa: F401
from tests.submit.conftest import runs, small, submit, told  # noqa: F401


def test_prints_markdown(sound_result, capsys):  # noqa: F811
    assert main([str(sound_result)]) == 0
    printed = capsys.readouterr().out
    assert "**image_classification/mini** on cpu" in printed
    assert printed.count("| torch |") == 5 + 1
    assert "~ " in printed
    assert main([str(sound_result), "--markdown"]) == 0
    assert capsys.readouterr().out == printed


def test_writes_curves(sound_result, tmp_path, capsys):  # noqa: F811
    curves = tmp_path / "docs" / "curves.svg"
    assert main([str(sound_result), "--curves", str(curves)]) == 0
    assert curves.read_text().count("<polyline") == 2 * 5
    assert capsys.readouterr().out == ""


def test_writes_a_page_with_tables_and_reviews_beside_it(sound_result, tmp_path, capsys):  # noqa: F811
    maker.package(tmp_path / "theirs")
    page = tmp_path / "out" / "board.html"
    words = [str(sound_result), f"{maker.RULESET}={tmp_path / 'theirs'}", "--html", str(page), "--reference", "cpu"]
    assert main(words) == 0
    assert "2 results" in capsys.readouterr().out
    text = page.read_text()
    for there in (maker.BENCHMARK, "image_classification/mini", "./board-reviews/1.html", "./board-reviews/2.html"):
        assert there in text
    assert [path.name for path in sorted((tmp_path / "out").iterdir())] == [
        "board-reviews",
        "board.csv",
        "board.html",
        "board.json",
    ]
    with (tmp_path / "out" / "board.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["ruleset"] for row in rows] == ["suite", maker.RULESET]
    made = json.loads((tmp_path / "out" / "board.json").read_text())["results"]
    assert [len(each["runs"]) for each in made] == [5, 10]
    assert (tmp_path / "out" / "board-reviews" / "2.html").read_text().startswith("<!DOCTYPE html>")


def test_page_lies_in_the_working_folder_if_none_is_named(sound_result, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    assert main([str(sound_result), "--html"]) == 0
    assert (tmp_path / "results.html").exists()


def test_what_fails_the_review_is_shown_as_a_claim(run, capsys):  # noqa: F811
    run.edit("suite_cost", lambda record: record.update(value=1e-9))
    assert main([str(run.folder)]) == 0
    assert "**fail**" in capsys.readouterr().out


def test_folder_of_a_hostile_name_leads_nowhere_else(run, tmp_path):  # noqa: F811
    evil = tmp_path / "javascript:alert(1)" / '"><b>'
    shutil.copytree(run.folder, evil)
    assert main([str(evil.parent), "--html", str(tmp_path / "page.html")]) == 0
    text = (tmp_path / "page.html").read_text()
    assert "<b>" not in text
    assert 'href="javascript' not in text
    assert "./javascript%3Aalert%281%29/%22%3E%3Cb%3E" in text


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ([], "FOLDER"),
        (["nowhere"], "cannot review nowhere"),
        ([""], "an empty word follows the command: give a value, or leave it out"),
        (["mlperf-5.1="], "mlperf-5.1= has no value: give one, or leave it out"),
        (["mlperf-9.9=."], "mlperf-9.9"),
        (["a", "datadir=b"], "did you mean 'data_dir'"),
        (["a", "--htlm"], "--htlm"),
        (["a.tar.xz"], "a.tar.xz is an archive: unpack it; suite review and suite audit alone take one as it is"),
        (["mlperf-5.1=a.tar.xz"], "a.tar.xz is an archive: unpack it"),
        (["a", "--reference", "b"], "give --html"),
        (["a", "--html", "b.csv"], "something.html"),
    ],
)
def test_a_mistake_is_one_line(words, answer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.tar.xz").touch()
    refuses(main, words, answer)


def test_unknown_reference_is_a_mistake(sound_result, tmp_path):  # noqa: F811
    with pytest.raises(UserError, match="someone: cpu"):
        main([str(sound_result), "--html", str(tmp_path / "page.html"), "--reference", "cpux"])
    assert not (tmp_path / "page.html").exists()


def test_page_that_cannot_be_written_is_a_mistake(sound_result, tmp_path):  # noqa: F811
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        main([str(sound_result), "--curves", str(tmp_path / "file" / "curves.svg")])


def test_is_a_command_that_explains_itself(tmp_path):
    done = run_command(tmp_path, "suite.results", "--help")
    assert done.returncode == 0
    for word in ("--markdown", "--curves", "--html", "mlperf-5.1=", "estimated", "NOISY"):
        assert word in done.stdout
    done = run_command(tmp_path, "suite.results", "nowhere")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("again", [".", "../result", "..", "run_1", "../link", "../link/run_2"])
def test_result_counts_once_however_its_folder_is_named(sound_result, tmp_path, again, capsys):  # noqa: F811
    made = tmp_path / "in" / "result"
    shutil.copytree(sound_result, made)
    (tmp_path / "in" / "link").symlink_to(made)
    named = os.path.relpath(made / again)
    for words in ([str(made), str(made / again)], [str(made / again), str(made)], [str(made), named]):
        assert main([*words, "--html", str(tmp_path / "page.html")]) == 0
        assert "1 result;" in capsys.readouterr().out
        (result,) = json.loads((tmp_path / "page.json").read_text())["results"]
        assert (result["reached"], result["runs_needed"]) == (5, 5)
        (only,) = set(re.findall(r"page-reviews/\d+", (tmp_path / "page.html").read_text()))
        assert (tmp_path / f"{only}.html").exists()


def test_a_result_behind_a_link_is_not_left_out_in_silence(sound_result, tmp_path, capsys):  # noqa: F811
    (tmp_path / "all").mkdir()
    shutil.copytree(sound_result, tmp_path / "all" / "result")
    (tmp_path / "all" / "linked").symlink_to(sound_result)
    assert main([str(tmp_path / "all")]) == 0
    assert capsys.readouterr().err == (
        f"{tmp_path}/all/linked: a link to a folder, not followed: name that folder itself\n"
    )


def test_submission_and_the_runs_it_was_made_of_are_one_result(submit, runs, told, tmp_path):  # noqa: F811
    submit(f"description={told}")
    for words in ([str(runs), str(submit.folder)], [str(submit.folder), str(runs)]):
        assert main([*words, "--html", str(tmp_path / "page.html")]) == 0
        (result,) = json.loads((tmp_path / "page.json").read_text())["results"]
        assert (result["system"], result["status"]) == ("cpu_torch", "Available on-premise")


def test_runs_of_one_result_count_apart_where_it_is_not_named(sound_result, tmp_path, capsys):  # noqa: F811
    words = [str(sound_result / "run_1"), str(sound_result / "run_2")]
    assert main([*words, "--html", str(tmp_path / "page.html")]) == 0
    assert "2 results" in capsys.readouterr().out


def test_log_of_a_round_that_is_named_itself_is_led_to(tmp_path):
    log = maker.package(tmp_path / "theirs", runs=1) / "result_0.txt"
    assert main([f"{maker.RULESET}={log}", "--html", str(tmp_path / "page.html")]) == 0
    links = re.findall(r'href="([^"#]*result_0[^"]*)"', (tmp_path / "page.html").read_text())
    assert {(tmp_path / each).resolve() for each in links} == {log}


def test_folder_of_a_round_counts_once(tmp_path, capsys):
    folder = tmp_path / "theirs"
    maker.package(folder)
    words = [f"{maker.RULESET}={folder}", f"{maker.RULESET}={folder}/../theirs"]
    assert main([*words, "--html", str(tmp_path / "page.html")]) == 0
    assert "1 result;" in capsys.readouterr().out
