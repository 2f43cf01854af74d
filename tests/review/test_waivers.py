"""Waivers: only the reviewer's file counts, what it excuses stays visible, and integrity is never excused."""

import json
import shutil
import socket
from collections import Counter
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.errors import UserError
from suite.review.__main__ import main
from suite.rules import submission
from tests.mlperf import maker
from tests.rules.mutants import MUTANTS

WAIVER = {"rule": "division.2", "reason": "agreed in the meeting", "reviewer": "A. Reviewer", "date": "2025-11-20"}


def written(path, *entries):
    lines = ["waivers:"]
    for entry in entries:
        first, *others = (f"{name}: {value}" for name, value in entry.items())
        lines += [f"  - {first}", *(f"    {other}" for other in others)]
    path.write_text("\n".join(lines) + "\n")
    return path


def reviewed(capsys, folder, *options):
    capsys.readouterr()
    code = main([str(folder), "--json", *map(str, options)])
    made = json.loads(capsys.readouterr().out)
    assert code == {"pass": 0, "fail": 1, "error": 2}[made["verdict"]]
    return made


@pytest.fixture
def breached(run):
    """Evidence that breaks division.2, and nothing else."""
    MUTANTS["division.2"][0](run)
    return run.folder


def test_reviewer_s_waiver_excuses_and_stays_visible_everywhere(breached, tmp_path, capsys):
    file = written(tmp_path / "waivers.yaml", WAIVER)
    page, log = tmp_path / "page.html", tmp_path / "log.sarif"
    made = reviewed(capsys, breached, "--waivers", file, "--html", page, "--sarif", log)
    assert made["verdict"] == made["logs"][0]["verdict"] == "pass"
    (finding,) = [f for f in made["findings"] if f["rule"] == "division.2"]
    assert (finding["severity"], finding["waived"]) == (
        "fail",
        {"reason": "agreed in the meeting", "reviewer": "A. Reviewer", "date": "2025-11-20"},
    )
    assert [f["waived"] for f in made["findings"] if f["rule"] != "division.2"] == [None, None]
    (suppressed,) = [r for r in json.loads(log.read_text())["runs"][0]["results"] if "suppressions" in r]
    assert suppressed["ruleId"] == "division.2"
    assert suppressed["suppressions"][0]["justification"] == "agreed in the meeting (A. Reviewer, 2025-11-20)"
    assert "agreed in the meeting (A. Reviewer, 2025-11-20)" in page.read_text()
    assert main([str(breached), "--waivers", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "A. Reviewer" in printed
    assert "waived: 1" in printed.splitlines()[-1]
    assert "but for what is waived" in printed


def test_submitter_s_waiver_is_a_request_and_excuses_nothing(breached, capsys):
    written(breached / "waivers.yaml", WAIVER)
    made = reviewed(capsys, breached)
    assert made["verdict"] == "fail"
    (request,) = [f for f in made["findings"] if f["rule"] == "review.2"]
    assert (request["severity"], request["file"], request["line"]) == ("note", "waivers.yaml", 2)
    assert "division.2, asked for by A. Reviewer: agreed in the meeting" in request["found"]
    assert not any(f["waived"] for f in made["findings"])


def test_waiver_of_one_file_covers_that_file_only(run, tmp_path, capsys):
    MUTANTS["hyperparameters.1"][0](run)
    rules = {"rule": "hyperparameters.1"}
    files = {f["file"] for f in reviewed(capsys, run.folder)["findings"] if f["severity"] == "fail"}
    for file in files:
        made = reviewed(
            capsys, run.folder, "--waivers", written(tmp_path / "w.yaml", {**WAIVER, **rules, "file": file})
        )
        assert {f["file"] for f in made["findings"] if f["waived"]} == {file}
        assert made["verdict"] == ("pass" if len(files) == 1 else "fail")


def test_waiver_s_file_may_be_spelt_otherwise(breached, tmp_path, capsys):
    (finding,) = [f for f in reviewed(capsys, breached)["findings"] if f["severity"] == "fail"]
    made = reviewed(
        capsys, breached, "--waivers", written(tmp_path / "w.yaml", {**WAIVER, "file": f"./{finding['file']}"})
    )
    assert made["verdict"] == "pass"
    assert not [f for f in made["findings"] if f["rule"] == "review.2"]


def test_waiver_of_a_file_far_below_covers_it(breached, tmp_path, capsys):
    folder = tmp_path / "all" / ("a" * 100) / ("b" * 100)
    shutil.copytree(breached, folder)
    (finding,) = [f for f in reviewed(capsys, tmp_path / "all")["findings"] if f["severity"] == "fail"]
    waiver = written(tmp_path / "w.yaml", {**WAIVER, "file": finding["file"]})
    assert reviewed(capsys, tmp_path / "all", "--waivers", waiver)["verdict"] == "pass"


@pytest.mark.parametrize("file", ["result", "result/."])
def test_waiver_of_a_result_covers_it(sound_result, tmp_path, capsys, file):
    shutil.copytree(sound_result, tmp_path / "all" / "result")
    shutil.rmtree(tmp_path / "all" / "result" / "run_2")
    waiver = written(tmp_path / "waivers.yaml", {**WAIVER, "rule": "runs.3", "file": file})
    made = reviewed(capsys, tmp_path / "all", "--waivers", waiver)
    (finding,) = [f for f in made["findings"] if f["rule"] == "runs.3"]
    assert (finding["file"], bool(finding["waived"])) == ("result", True)


def test_waiver_that_excuses_nothing_is_noted(breached, tmp_path, capsys):
    file = written(tmp_path / "w.yaml", WAIVER, {**WAIVER, "file": "run_7/log.txt"}, {**WAIVER, "rule": "runs.2"})
    made = reviewed(capsys, breached, "--waivers", file)
    assert made["verdict"] == "pass"
    notes = [f for f in made["findings"] if f["rule"] == "review.2"]
    assert [(f["severity"], f["line"], f["expected"], f["found"]) for f in notes] == [
        ("note", 6, "a finding against division.2 in run_7/log.txt", "none"),
        ("note", 11, "a finding against runs.2", "none"),
    ]


def test_note_needs_no_waiver(run, tmp_path, capsys):
    file = written(tmp_path / "w.yaml", {**WAIVER, "rule": "runs.6"})
    findings = reviewed(capsys, run.folder, "--waivers", file)["findings"]
    assert [f["severity"] for f in findings if f["rule"] == "runs.6"] == ["note"]
    assert not any(f["waived"] for f in findings)
    assert [f["found"] for f in findings if f["rule"] == "review.2"] == ["none"]


@pytest.mark.parametrize(("days", "verdict"), [(0, "pass"), (1, "fail")])
def test_waiver_is_of_a_day_that_has_begun_somewhere(breached, tmp_path, capsys, days, verdict):
    day = (datetime.now(timezone(timedelta(hours=14))) + timedelta(days=days)).date().isoformat()
    file = written(tmp_path / "w.yaml", {**WAIVER, "date": day})
    assert reviewed(capsys, breached, "--waivers", file)["verdict"] == verdict


def test_dropped_run_stays_dropped_when_a_waiver_excuses_another_finding(tmp_path, capsys):
    results = maker.package(tmp_path / "round")
    log = results / "result_4.txt"
    log.write_text(log.read_text().replace('"key": "lora_rank"', '"key": "lora_rankx"'))
    options = ("--ruleset", maker.RULESET)
    assert reviewed(capsys, tmp_path / "round", *options)["verdict"] == "pass"
    system = results.parents[2] / "systems" / f"{maker.SYSTEM}.json"
    described = maker.description()
    del described["cooling"]
    system.write_text(json.dumps(described))
    assert reviewed(capsys, tmp_path / "round", *options)["verdict"] == "fail"
    file = written(tmp_path / "w.yaml", {**WAIVER, "rule": f"{maker.RULESET}/system"})
    made = reviewed(capsys, tmp_path / "round", *options, "--waivers", file)
    assert made["verdict"] == "pass"
    assert [log["path"] for log in made["logs"] if log["verdict"] == "fail"] == [
        f"{maker.ORG}/results/{maker.SYSTEM}/{maker.BENCHMARK}/result_4.txt"
    ]


@pytest.mark.parametrize("rule", ["log.1", "log.2", "package.1", "package.4", "review.1"])
def test_integrity_cannot_be_waived(run, tmp_path, capsys, rule):
    with (run.folder / "log.txt").open("ab") as file:
        file.write(b"more\n")
    made = reviewed(capsys, run.folder, "--waivers", written(tmp_path / "w.yaml", {**WAIVER, "rule": rule}))
    assert made["verdict"] == "fail"
    assert not any(f["waived"] for f in made["findings"])
    assert [f["found"] for f in made["findings"] if f["rule"] == "review.1"] == [rule]


MALFORMED = {
    "unknown rule": "waivers:\n- {rule: division.99, reason: r, reviewer: v, date: 2025-11-20}\n",
    "without reason": "waivers:\n- {rule: division.2, reviewer: v, date: 2025-11-20}\n",
    "empty reason": "waivers:\n- {rule: division.2, reason: '', reviewer: v, date: 2025-11-20}\n",
    "blank reason": "waivers:\n- {rule: division.2, reason: ' ', reviewer: v, date: 2025-11-20}\n",
    "blank reviewer": 'waivers:\n- {rule: division.2, reason: r, reviewer: " \\t", date: 2025-11-20}\n',
    "date to come": "waivers:\n- {rule: division.2, reason: r, reviewer: v, date: 9999-01-01}\n",
    "date of a week": "waivers:\n- {rule: division.2, reason: r, reviewer: v, date: 2026-W01-1}\n",
    "date in one": "waivers:\n- {rule: division.2, reason: r, reviewer: v, date: 20260101}\n",
    "no date": "waivers:\n- {rule: division.2, reason: r, reviewer: v, date: soon}\n",
    "more": "waivers:\n- {rule: division.2, reason: r, reviewer: v, date: 2025-11-20, also: x}\n",
    "twice": "waivers:\n- {rule: x, rule: division.2, reason: r, reviewer: v, date: 2025-11-20}\n",
    "not a list": "waivers: {rule: division.2}\n",
    "another key": "waivers: []\nmore: []\n",
    "list": "- rule: division.2\n",
    "nested": "waivers:\n- {rule: [division.2], reason: r, reviewer: v, date: 2025-11-20}\n",
    "empty": "",
    "bytes": "\0\1",
    "not yaml": "waivers: [\n",
    "deep": "[" * 20_000,
    "tag": "waivers: !!python/object/apply:os.system ['echo']\n",
    "large": "#" * 100_000,
}


@pytest.mark.parametrize("content", MALFORMED.values(), ids=MALFORMED)
def test_malformed_waiver_is_a_finding(run, tmp_path, capsys, content):
    (tmp_path / "w.yaml").write_text(content)
    made = reviewed(capsys, run.folder, "--waivers", tmp_path / "w.yaml")
    assert [f["severity"] for f in made["findings"] if f["rule"] == "review.1"] == ["error"]
    assert made["verdict"] == "error"
    (run.folder / "waivers.yaml").write_text(content)
    assert reviewed(capsys, run.folder)["verdict"] == "fail"


def test_waiver_of_a_day_to_come_is_told_plainly_and_counted_beside_the_breaches(breached, tmp_path, capsys):
    file = written(tmp_path / "waivers.yaml", WAIVER | {"date": "9999-01-01"})
    (finding,) = [f for f in reviewed(capsys, breached, "--waivers", file)["findings"] if f["rule"] == "review.1"]
    assert finding["found"] == "date: in the future"
    main([str(breached), "--waivers", str(file)])
    assert "FAIL: 1 finding against the rules; converged: yes; errors: 1; notes: " in capsys.readouterr().out


def test_many_requests_are_told_as_one_is_and_their_sizes_count(run, tmp_path, monkeypatch, capsys):
    package = run.copy(tmp_path / "package" / "result").folder.parent
    for name in "abcd":
        (package / name).mkdir()
        (package / name / "waivers.yaml").write_text("waivers:\n" + "- rule: x\n" * 500)
    found = Counter(f["file"] for f in reviewed(capsys, package)["findings"] if f["rule"] == "review.1")
    assert found == {f"{name}/waivers.yaml": 250 for name in "abcd"}
    monkeypatch.setattr(submission, "MAX_ASKED_BYTES", 10_000)
    with pytest.raises(UserError, match="its evidence, waivers, is of more than"):
        main([str(package)])


def test_request_that_is_a_link_is_not_followed(run, tmp_path, capsys):
    (run.folder / "waivers.yaml").symlink_to(written(tmp_path / "w.yaml", WAIVER))
    made = reviewed(capsys, run.folder)
    assert made["verdict"] == "fail"
    assert not [f for f in made["findings"] if f["rule"] == "review.2"]


def test_request_that_cannot_be_read_is_a_finding(run, capsys, monkeypatch):
    monkeypatch.chdir(run.folder)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.bind("waivers.yaml")
    made = reviewed(capsys, run.folder)
    assert made["verdict"] == "fail"
    assert "waivers.yaml" in [f["file"] for f in made["findings"] if f["rule"] == "review.1"]


def test_missing_file_is_a_mistake(run, tmp_path):
    with pytest.raises(UserError, match="cannot read --waivers"):
        main([str(run.folder), "--waivers", str(tmp_path / "nowhere")])


@settings(max_examples=60)
@given(
    content=st.binary(max_size=200)
    | st.text(max_size=200).map(lambda text: f"waivers:\n- {text}".encode("utf-8", "replace"))
)
def test_no_bytes_raise(breached, tmp_path, capsys, content):
    (tmp_path / "w.yaml").write_bytes(content)
    made = reviewed(capsys, breached, "--waivers", tmp_path / "w.yaml")
    assert made["verdict"] == "fail"
