"""Findings of one kind are told once, with their count and places; failures come before notes."""

import json

from suite.review import rulebook
from suite.review.__main__ import main
from suite.review.kinds import kinds
from suite.review.model import Report
from suite.rules.finding import Finding
from tests.mlperf import maker
from tests.mlperf.maker import RULESET, entries, find, text
from tests.review.page import page_of, sound


def report_of(*findings):
    return Report("suite", "fail", list(findings), list(findings), [])


def finding(file, line, expected, found="another", rule="a.1", mend="mend it", severity="fail"):
    return Finding(file, line, expected, found, mend, severity, rule=rule)


def test_what_differs_by_numbers_alone_is_one_kind():
    findings = [
        finding(f"run_{at}/log.txt", at, f"seed {at}, as in line {at + 3}", f"seed {at + 1}") for at in (1, 2, 3)
    ]
    (kind,) = kinds(report_of(*findings))
    assert kind.count == 3
    assert kind.first is findings[0]
    assert kind.found == "seed 2 (other figures in the others)"
    assert kind.places == ["run_1/log.txt:1", "run_2/log.txt:2", "run_3/log.txt:3"]


def test_what_asks_something_else_is_another_kind():
    findings = [
        finding("log.txt", 1, "opt_adam_beta_1 0.9"),
        finding("log.txt", 2, "opt_adam_beta_2 0.9"),
        finding("log.txt", 3, "opt_adam_beta_1 0.9", rule="a.2"),
        finding("log.txt", 4, "opt_adam_beta_1 0.9", severity="note"),
        finding("log.txt", 5, "opt_adam_beta_1 0.9", mend="mend it otherwise"),
    ]
    assert [kind.count for kind in kinds(report_of(*findings))] == [1] * 5


def test_what_was_found_is_told_a_few_times():
    findings = [finding("log.txt", at, "true", f"number {at}") for at in range(1, 8)]
    (kind,) = kinds(report_of(*findings))
    assert kind.found == "number 1; number 2; number 3; 4 more"


def test_a_package_s_findings_are_told_once_and_failures_first(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    results = maker.package(tmp_path, runs=9)
    for at in range(9):
        made = entries(seed=at + 1)
        find(made, "lora_rank")["value"] = 4
        (results / f"result_{at}.txt").write_text(text(made))
    assert main([str(results), "--ruleset", RULESET]) == 1
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split("│")[1].strip() for line in lines if line.startswith("│")]
    assert rows.index("fail") < rows.index("note")
    assert rows.count("9 times") == 1
    printed = "\n".join(lines)
    for told in ("lora_rank with value equal to 16", "lora_rank 4", "result_3.txt:", "and 5 more places", "9 of 10"):
        assert told in printed
    assert "result_4.txt:" not in printed
    assert "not checked" not in printed
    page = page_of(results, tmp_path, "--ruleset", RULESET)
    sound(page)
    assert page.tags.count("article") == 2
    for told in ("9 times", "9 places", "result_8.txt:"):
        assert told in page.text
    capsys.readouterr()
    main([str(results), "--ruleset", RULESET, "--json", "--sarif", str(tmp_path / "review.sarif")])
    made = json.loads(capsys.readouterr().out)
    assert [each["severity"] for each in made["findings"]] == ["fail"] * 9 + ["note"]
    assert len(json.loads((tmp_path / "review.sarif").read_text())["runs"][0]["results"]) == 10


def test_what_complies_says_what_was_not_checked(tmp_path, capsys, run):
    maker.package(tmp_path)
    for options, said in (([], "--strict"), (["--strict"], "RCP")):
        assert main([str(tmp_path / maker.ORG), "--ruleset", RULESET, *options]) == 0
        *_, not_checked, verdict = capsys.readouterr().out.splitlines()
        assert not_checked.startswith("not checked: ")
        assert said in not_checked
        assert "seeds" in not_checked
        assert verdict == f"PASS: complies with {RULESET}"
    assert main([str(run.folder), "--json"]) == 0
    left = json.loads(capsys.readouterr().out)["beyond_review"]
    assert left["audit.3"].startswith("an audit: The initial state")
    assert left["data.3"].startswith("a person: ")
    assert "timing.8" not in left
    assert main([str(run.folder)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "not checked: whether the submitter's clock was right" in printed
    assert "rules that only a person or an audit can tell" in printed
    page = page_of(tmp_path / maker.ORG, tmp_path, "--ruleset", RULESET)
    assert "Not checked: convergence against the reference" in page.text


def test_where_the_rules_are_not_installed_nobody_is_told_that_none_are_left(tmp_path, capsys, run, monkeypatch):
    monkeypatch.setattr(rulebook, "RULES_MD", tmp_path / "rules.md")
    rulebook._rules.cache_clear()
    try:
        assert main([str(run.folder)]) == 0
    finally:
        rulebook._rules.cache_clear()
    assert "can tell: rules.md, which is not installed here" in " ".join(capsys.readouterr().out.split())
