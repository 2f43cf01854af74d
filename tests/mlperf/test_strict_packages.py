"""What only several logs show: copies, another's organisation, a dropped run that broke a rule."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from suite import mlperf
from tests.mlperf import maker
from tests.mlperf.found import strict_findings
from tests.mlperf.maker import RULESET, Entry, entries, evaluate, every, find, missed, text


def test_a_compliant_package_passes(tmp_path: Path) -> None:
    maker.package(tmp_path)
    assert strict_findings(tmp_path / maker.ORG) == []


@pytest.mark.parametrize("disguise", ["none", "seed", "shift", "one time"])
def test_copies(tmp_path: Path, disguise: str) -> None:
    results = maker.package(tmp_path)
    made = [json.loads(json.dumps(each)) for each in entries(seed=2)]
    if disguise != "none":
        find(made, "seed")["value"] = 99
    if disguise == "shift":
        for each in made:
            each["time_ms"] += 86_400_000
    if disguise == "one time":
        every(made, "eval_start")[1]["time_ms"] += 3
    (results / "result_7.txt").write_text(text(made))
    assert mlperf.review(tmp_path / maker.ORG, RULESET).verdict == "pass"
    assert strict_findings(tmp_path / maker.ORG) == [("copy", "result_7.txt", None)]


def runs_alike(folder: Path, *made: list[Entry]) -> list[str]:
    """The logs that are found to be copies, of these."""
    for at, each in enumerate(made):
        (folder / f"result_{at}.txt").write_text(text(each))
    return [name for rule, name, _ in strict_findings(folder) if rule == "copy"]


def of_qualities(seed: int, *qualities: float) -> list[Entry]:
    """A run with these qualities."""
    made = entries(seed)
    evaluate(made, *qualities)
    return made


def test_times_alone_or_qualities_alone_tell_a_copy(tmp_path: Path) -> None:
    later = of_qualities(2, 0.97, 0.96, 0.95, 0.9)
    every(later, "eval_start")[1]["time_ms"] += 3
    alike = [find(entries(2), "eval_accuracy")["value"], 0.96, 0.95, 0.9]
    assert runs_alike(tmp_path, entries(2), later) == ["result_1.txt"]
    assert runs_alike(tmp_path, of_qualities(2, *alike), of_qualities(3, *alike)) == ["result_1.txt"]
    assert runs_alike(tmp_path, *[entries(2)] * 3) == ["result_1.txt", "result_2.txt"]  # each is named once


def test_what_may_be_alike_by_chance_tells_no_copy(tmp_path: Path) -> None:
    begun = [made[: made.index(find(made, "block_start")) + 1] for made in (entries(2), entries(3))]
    assert runs_alike(tmp_path, *begun) == []
    assert runs_alike(tmp_path, of_qualities(2, 1, 1, 1, 0.9), of_qualities(3, 1, 1, 1, 0.9)) == []


def test_copies_on_another_system(tmp_path: Path) -> None:
    results = maker.package(tmp_path)
    other = tmp_path / maker.ORG / "systems" / "other.json"
    other.write_text(json.dumps(maker.description(system_name="other")))
    shutil.copytree(results, results.parents[1] / "other" / results.name)
    assert strict_findings(tmp_path) == [("copy", f"result_{at}.txt", None) for at in range(10)]


def test_the_organisation_is_the_submitter(tmp_path: Path) -> None:
    results = maker.package(tmp_path)
    made = entries(seed=3)
    find(made, "submission_org")["value"] = "EXAMPLE"  # spelt otherwise, the same
    (results / "result_2.txt").write_text(text(made))
    assert strict_findings(tmp_path / maker.ORG) == []
    find(made, "submission_org")["value"] = "SUBMISSION_ORG_PLACEHOLDER"
    (results / "result_2.txt").write_text(text(made))
    line = 2 * made.index(find(made, "submission_org")) + 2
    assert strict_findings(tmp_path / maker.ORG) == [("organisation", "result_2.txt", line)]
    assert strict_findings(tmp_path) == [("organisation", "result_2.txt", line)]
    assert strict_findings(results) == [("organisation", "result_2.txt", line)]  # where the other logs tell who submits
    maker.describe(results, submitter="A")  # too short to be told for a part of the name in the logs
    found = [rule for rule, _, _ in strict_findings(tmp_path / maker.ORG)]
    assert found == ["organisation"] * 10


def test_where_no_name_prevails_the_logs_do_not_tell_who_submits(tmp_path: Path) -> None:
    for at, name in enumerate(("First", "Second")):
        made = entries(at)
        find(made, "submission_org")["value"] = name
        (tmp_path / f"result_{at}.txt").write_text(text(made))
    assert not any(rule == "organisation" for rule, _, _ in strict_findings(tmp_path))


def test_a_result_is_of_one_division(tmp_path: Path) -> None:
    """The rules of the open division check little, so a run that names it must not pass for one of the closed."""
    results = maker.package(tmp_path)
    made = [{**each, "metadata": {**each["metadata"], "epoch_num": 1}} for each in entries(seed=3)]
    find(made, "submission_division")["value"] = "open"
    find(made, "lora_rank")["value"] = 4
    (results / "result_2.txt").write_text(text(made))
    line = 2 * made.index(find(made, "submission_division")) + 2
    assert mlperf.review(tmp_path / maker.ORG, RULESET).verdict == "pass"
    assert strict_findings(tmp_path / maker.ORG) == [("division", "result_2.txt", line)]
    assert strict_findings(results) == [("division", "result_2.txt", line)]  # where the other logs tell the division
    maker.describe(results, division="Open")
    assert len(strict_findings(tmp_path / maker.ORG)) == 9


def test_a_name_may_be_a_part_of_the_submitter_s(tmp_path: Path) -> None:
    results = maker.package(tmp_path)
    maker.describe(results, submitter=f"{maker.ORG}-Partner")
    assert strict_findings(tmp_path / maker.ORG) == []


@pytest.mark.parametrize("name", ["SUBMISSION_ORG_PLACEHOLDER", "reference_implementation"])
def test_a_placeholder_is_nobody_s_name(tmp_path: Path, name: str) -> None:
    """As published code logs one until somebody enters a name."""
    made = entries()
    find(made, "submission_org")["value"] = name
    for at in range(2):
        (tmp_path / f"result_{at}.txt").write_text(text(made) if at else text(made[:-1]))
    assert ("organisation", "result_1.txt", 8) in strict_findings(tmp_path)
    assert strict_findings(tmp_path / "result_1.txt") == [("organisation", "result_1.txt", 8)]


def test_only_a_run_that_missed_the_target_is_excused(tmp_path: Path) -> None:
    results = maker.package(tmp_path)
    made = missed(seed=5)
    (results / "result_4.txt").write_text(text(made))
    review = mlperf.review(results, RULESET, strict=True)
    assert review.verdict == "pass"
    assert not any(finding.rule.startswith("mlperf-strict") for finding in review.all_findings)
    find(made, "run_stop")["metadata"]["status"] = "success"
    (results / "result_4.txt").write_text(text(made))
    line = 2 * made.index(find(made, "run_stop")) + 2
    assert ("status", "result_4.txt", line) in strict_findings(results)
    assert mlperf.review(results, RULESET, strict=True).verdict == "fail"
    find(made, "run_stop")["metadata"]["status"] = "aborted"
    find(made, "lora_rank")["value"] = 4
    (results / "result_4.txt").write_text(text(made))
    assert mlperf.review(results, RULESET).verdict == "pass"  # as the official package checker has it
    review = mlperf.review(results, RULESET, strict=True)
    assert review.verdict == "fail"
    assert [finding.rule for finding in review.findings if finding.severity == "fail"] == ["mlperf-strict/excused"]
    alone = strict_findings(results / "result_4.txt")  # none is dropped of one
    assert "excused" not in {rule for rule, _, _ in alone}
