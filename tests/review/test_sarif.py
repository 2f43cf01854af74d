"""SARIF as CI systems read it: each finding at its file and line."""

import json

from suite.review.__main__ import main
from tests.rules.mutants import MUTANTS


def written(folder, tmp_path):
    path = tmp_path / "log.sarif"
    code = main([str(folder), "--sarif", str(path)])
    return code, json.loads(path.read_text())


def test_each_finding_is_a_result_at_its_line(run, tmp_path):
    MUTANTS["division.2"][0](run)
    (run.folder / "more <&> files.txt").write_text("")
    code, log = written(run.folder, tmp_path)
    assert (code, log["version"]) == (1, "2.1.0")
    (made,) = log["runs"]
    rules = [rule["id"] for rule in made["tool"]["driver"]["rules"]]
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in made["results"])
    levels = {result["ruleId"]: result["level"] for result in made["results"]}
    assert (levels["division.2"], levels["package.5"]) == ("error", "note")
    (result,) = [result for result in made["results"] if result["ruleId"] == "division.2"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "config.yaml"
    line = (run.folder / "config.yaml").read_text().splitlines()[place["region"]["startLine"] - 1]
    assert "0.5" in line
    assert "found 0.5" in result["message"]["text"]
    texts = {rule["id"]: rule["shortDescription"]["text"] for rule in made["tool"]["driver"]["rules"]}
    assert "the suite's" in texts["division.2"]
    uris = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in made["results"]}
    assert "more%20%3C%26%3E%20files.txt" in uris
    assert made["invocations"] == [{"executionSuccessful": True}]


def test_no_text_of_a_submission_is_a_link(run, tmp_path):
    run.edit("seed", lambda record: record.update(value="[text](https://example.org/\\)"))
    _, log = written(run.folder, tmp_path)
    (said,) = [result["message"]["text"] for result in log["runs"][0]["results"] if result["ruleId"] == "runs.2"]
    assert r"found \[text\](https://example.org/\\)." in said


def test_sound_evidence_has_no_errors(run, tmp_path):
    code, log = written(run.folder, tmp_path)
    assert code == 0
    assert {result["level"] for result in log["runs"][0]["results"]} == {"note"}
