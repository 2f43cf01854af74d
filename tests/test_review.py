"""`suite review` as a reviewer types it."""

# ruff: noqa: F401, F811 (the fixtures of tests/rules)

import json
from dataclasses import replace

import pytest

from suite import config, mlperf
from suite.errors import UserError, command
from suite.record import evidence
from suite.review import terminal
from suite.review.__main__ import main
from suite.rules.finding import Finding
from suite.rules.verdict import review
from suite.run import printing
from tests.command import refuses
from tests.command import run as run_command
from tests.rules.conftest import run, sound_result, sound_run
from tests.rules.evidence_maker import reference_points
from tests.rules.mutants import MUTANTS


def test_says_that_sound_evidence_passes(run, capsys):
    assert main([str(run.folder)]) == 0
    printed = capsys.readouterr().out
    last = printed.splitlines()[-1]
    assert last.startswith("PASS")
    assert "converged: yes" in last
    assert all(
        text in printed for text in ("not submittable", "seed 100", "quality 0.9937,", "30.0 s", "estimated", "$")
    )


def test_is_a_command_of_its_own(run, tmp_path):
    done = run_command(tmp_path, "suite.review", str(run.folder))
    assert (done.returncode, done.stderr) == (1, "")  # in a process of its own nobody knows the made-up benchmark
    done = run_command(tmp_path, "suite.review", "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: cannot review nowhere")
    assert done.stderr.count("\n") == 1


def test_prints_a_json_object_also_where_nothing_can_be_reviewed(tmp_path, capsys):
    with pytest.raises(UserError):
        main([str(tmp_path / "nowhere"), "--json"])
    made = json.loads(capsys.readouterr().out)
    assert (made["verdict"], made["findings"], made["logs"]) == ("error", [], [])
    assert "cannot review" in made["error"]


@pytest.mark.parametrize("option", ["--html", "--sarif"])
def test_a_file_that_cannot_be_written_is_told_before_the_review(run, tmp_path, monkeypatch, option):
    monkeypatch.setattr("suite.review.__main__.report", lambda *_, **__: pytest.fail("reviewed"))
    with pytest.raises(UserError, match=f"^cannot write {tmp_path}: Is a directory$"):
        main([str(run.folder), option, str(tmp_path)])


@pytest.mark.parametrize("name", [evidence.LOG, evidence.CONFIG, evidence.PREDICTIONS])
def test_names_file_and_line_of_a_changed_byte(run, name, capsys):
    path = run.folder / name
    lines = path.read_bytes().split(b"\n")
    lines[6] = lines[6][:-1] + bytes([lines[6][-1] ^ 1])
    path.write_bytes(b"\n".join(lines))
    assert main([str(run.folder)]) == 1
    printed = capsys.readouterr().out
    assert f"{name}:7" in printed
    assert printed.splitlines()[-1].startswith("FAIL")


def test_prints_one_json_object(sound_result, capsys):
    assert main([str(sound_result), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["verdict"], made["converged"]) == ("pass", True)
    assert [log["path"] for log in made["logs"]] == [f"run_{index}/log.txt" for index in range(1, 6)]
    assert all(log["verdict"] == "pass" for log in made["logs"])
    assert set(made["findings"][0]) == {"rule", "severity", "file", "line", "expected", "found", "mend", "waived"}
    assert [finding["file"] for finding in made["findings"]] == ["run_1/log.txt"]


def test_prints_the_score_of_a_result(sound_result, capsys):
    assert main([str(sound_result)]) == 0
    assert "time to quality: 30.0 s (olympic mean of 5 runs); 5 converged" in capsys.readouterr().out


def test_names_the_factor_of_a_score_that_is_no_olympic_mean(sound_result, monkeypatch, tmp_path, capsys):
    """In the review as in the last lines of a run."""
    points = reference_points(tmp_path, samples=(5000, 6000, 6000, 7000, 7000))
    monkeypatch.setattr("suite.rules.reference.path", lambda benchmark: points)
    assert main([str(sound_result)]) == 0
    said = "31.7 s (olympic mean of 5 runs, 30.0 s, times 1.0556 for its few samples: convergence.2); 5 converged"
    assert f"time to quality: {said}" in capsys.readouterr().out
    assert main([str(sound_result), "--json"]) == 0
    (score,) = json.loads(capsys.readouterr().out)["scores"]
    assert score["seconds"] / score["normalisation"] == pytest.approx(30.0)
    printing.verdict(printing.console(), review(sound_result))
    said = "score     31.7 s: 30.0 s times 1.0556 for its few samples (convergence.2)"
    assert capsys.readouterr().out.splitlines()[-1] == said


def test_a_result_that_is_held_to_no_points_says_so(sound_result, monkeypatch, tmp_path, capsys):
    """In the review as in the last lines of a run."""
    monkeypatch.setattr("suite.rules.reference.path", lambda benchmark: tmp_path / "none")
    said = "not held to the reference, of which there are no convergence points here"
    assert main([str(sound_result)]) == 0
    assert f"time to quality: 30.0 s (olympic mean of 5 runs; {said}); 5 converged" in capsys.readouterr().out
    printing.verdict(printing.console(), review(sound_result))
    assert capsys.readouterr().out.splitlines()[-1] == f"samples   {said}"


def test_a_result_of_the_open_division_says_so(sound_result):
    (result,) = review(sound_result).results
    assert terminal.score(result) == "30.0 s (olympic mean of 5 runs)"
    assert terminal.score(replace(result, division="open")) == "30.0 s (olympic mean of 5 runs; open division)"


def test_tells_not_converged_from_not_compliant(run, capsys):
    MUTANTS["convergence.1"][0](run)
    assert main([str(run.folder)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("PASS")
    assert "converged: no" in last


def test_many_findings_of_one_rule_do_not_flood_the_terminal(run, capsys):
    run.edit_log(lambda records: records.extend(["noise"] * 500))
    assert main([str(run.folder)]) == 1
    printed = capsys.readouterr().out
    assert printed.count("log.1") == 1
    assert "500 times" in printed
    main([str(run.folder), "--json"])
    assert len(json.loads(capsys.readouterr().out)["findings"]) > 500


def test_missing_data_is_an_error_that_says_how_to_get_it(run, tmp_path, monkeypatch, capsys):
    mini, small = config.benchmark("image_classification", "mini"), config.benchmark("image_classification", "small")
    dataset = mini.dataset.model_copy(update={"files": small.dataset.files, "archive": small.dataset.archive})
    benchmark = mini.model_copy(update={"dataset": dataset})
    monkeypatch.setattr("suite.config.benchmark", lambda task, scale: benchmark)
    run.edit_config(lambda values: values["benchmark"].update(dataset=dataset.model_dump(mode="json")))
    assert main([str(run.folder), f"data_dir={tmp_path / 'empty'}"]) == 2
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1].startswith("ERROR")
    assert "suite.data fetch" in printed
    assert "image_classification/mini" in printed


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["nowhere"], "cannot review nowhere"),
        ([], "PATH"),
        (["a", "b"], "2 folders"),
        (["a", "datadir=b"], "did you mean 'data_dir'"),
        (["a", "--jsom"], "--jsom"),
        ([".", "--strict"], "--ruleset mlperf-X.Y"),
        ([".", "--ruleset", "mlperf-9.9"], "mlperf-9.9"),
    ],
)
def test_a_mistake_is_one_line(words, answer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refuses(main, words, answer)


@pytest.mark.parametrize("name", ["loop", "loop/run_1", "a" * 300, "file/run_1"])
def test_a_path_that_leads_nowhere_is_a_mistake(name, tmp_path, capsys):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot review"):
        main([str(tmp_path / name), "--json"])
    assert json.loads(capsys.readouterr().out)["verdict"] == "error"


def test_a_folder_s_name_is_not_printed_live(tmp_path):
    (tmp_path / "\x1b[31m").mkdir()
    done = run_command(tmp_path, "suite.review", "\x1b[31m")
    assert (done.returncode, done.stdout) == (2, "")
    assert "\\x1b[31m holds no evidence" in done.stderr
    assert "\x1b" not in done.stderr


def test_what_the_system_refuses_is_one_line(monkeypatch, capsys, tmp_path):
    def refused(*_, **__):
        raise OSError(28, "No space left on device", "unpacked")

    monkeypatch.setattr("suite.review.__main__.report", refused)
    monkeypatch.setattr("sys.argv", ["review", str(tmp_path), "--json"])
    with pytest.raises(SystemExit) as ended:
        command(main)
    printed = capsys.readouterr()
    assert ended.value.code == 2
    assert json.loads(printed.out)["verdict"] == "error"
    assert printed.err == "error: [Errno 28] No space left on device: 'unpacked'\n"


def test_a_folder_without_evidence_is_a_mistake(tmp_path):
    (tmp_path / "hello").write_text("")
    with pytest.raises(UserError, match=r"holds no evidence: .* give the out= folder"):
        main([str(tmp_path)])
    (log := tmp_path / "results" / "result_0.txt").parent.mkdir()
    log.write_text("")
    for path in (tmp_path, log):
        with pytest.raises(UserError, match="name the round: suite review PATH --ruleset"):
            main([str(path)])


def test_a_link_to_evidence_is_named_as_the_reason_why_there_is_none(tmp_path):
    (tmp_path / "runs").symlink_to("/")
    with pytest.raises(UserError, match=r"holds no evidence: .*; runs is a symbolic link, and links are not followed$"):
        main([str(tmp_path)])


def test_mlperf_ruleset_reviews_by_mlperf_s_rules(tmp_path, monkeypatch, capsys):
    finding = Finding("a/result_0.txt", 3, "one seed", "none", "log it", rule="mlperf-5.1/seed")
    log = mlperf.reviewing.LogReview("a/result_0.txt", "fail", [finding], "fail", minutes=2.5)
    provenance = mlperf.Provenance("mlperf-5.1", True, "mlperf-logging", "1.0", {"closed.yaml": "ab" * 32})
    given = []

    def review(path, ruleset, strictly, progress):
        given.append((path, ruleset, strictly))
        progress(1, 1)
        return mlperf.Review("fail", [], [log], [], provenance, [finding])

    monkeypatch.setattr(mlperf, "review", review)
    assert main([str(tmp_path), "--ruleset", "mlperf-5.1", "--strict", "--json"]) == 1
    made = json.loads(capsys.readouterr().out)
    assert given == [(tmp_path, "mlperf-5.1", True)]
    assert (made["ruleset"], made["provenance"]["rule_files"]) == ("mlperf-5.1", {"closed.yaml": "ab" * 32})
    assert (made["logs"][0]["path"], made["logs"][0]["minutes"]) == ("a/result_0.txt", 2.5)
    assert made["findings"][0]["rule"] == "mlperf-5.1/seed"
    assert main([str(tmp_path), "--ruleset", "mlperf-5.1"]) == 1
    assert "1 log: 1 fail" in capsys.readouterr().out
