"""The verdict on one log: that of MLCommons' own checker, with every finding and the file's own line numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite import mlperf
from suite.errors import UserError
from suite.mlperf import deciding, rulefiles
from suite.mlperf.compiling import compiled
from tests.mlperf import maker, official
from tests.mlperf.maker import RULESET, Entry, entries, evaluate, find, setting, text


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "result_0.txt"


def rules_of(path: Path, ruleset: str = RULESET) -> list[tuple[str, int | None]]:
    review = mlperf.review(path, ruleset)
    assert (review.verdict == "pass") == (official.verdict(path, ruleset) == "PASS")
    assert review.verdict == review.logs[0].verdict
    return [(f.rule.removeprefix(ruleset + "/"), f.line) for f in review.all_findings if f.severity == "fail"]


def test_a_compliant_log_passes(log: Path) -> None:
    log.write_text(text(entries()))
    assert rules_of(log) == []


def number_of(made: list[Entry], key: str) -> int:
    """The line that `maker.text` gives the first line of `key`: every other one is the program's."""
    return 2 * made.index(find(made, key)) + 2


@pytest.mark.parametrize(
    ("key", "change", "rule"),
    [
        ("lora_rank", {"value": 8}, "closed_llama2_70b_lora/lora_rank"),
        ("submission_division", {"value": "ajar"}, "common/submission_division"),
        ("run_stop", {"metadata": {}}, "common/run_stop"),
        ("run_stop", {"metadata": None}, "common/run_stop"),
        ("micro_batch_size", {"value": "many"}, "common/micro_batch_size"),
        ("init_stop", {"time_ms": 1_800_000_000_000}, "common/init_stop"),
        ("tensor_parallelism", {"value": float("inf")}, "common/tensor_parallelism"),
    ],
)
def test_a_breach_is_found_in_its_line(log: Path, key: str, change: dict[str, Any], rule: str) -> None:
    made = entries()
    find(made, key).update(change)
    log.write_text(text(made))
    assert (rule, number_of(made, key)) in rules_of(log)


def test_all_breaches_are_found(log: Path) -> None:
    made = entries()
    for each in made:
        if each["key"].startswith("eval_"):
            each["metadata"] = {}
    find(made, "micro_batch_size")["value"] = 0
    log.write_text(text(made))
    found = [rule for rule, _ in rules_of(log)]
    assert found.count("common/eval_start") == found.count("closed_llama2_70b_lora/eval_accuracy") == 4
    assert "common/micro_batch_size" in found
    assert "common/eval_accuracy" not in found  # the benchmark's file speaks of that key, and so for it


@pytest.mark.parametrize("missing", ["seed", "micro_batch_size", "run_stop", "eval_accuracy", "submission_benchmark"])
def test_missing_lines(log: Path, missing: str) -> None:
    log.write_text(text([each for each in entries() if each["key"] != missing]))
    assert bool(rules_of(log)) == (missing != "seed")


def test_the_target_must_be_reached(log: Path) -> None:
    made = entries()
    found = evaluate(made, 0.95, 0.926, 0.93, 0.94)
    log.write_text(text(made))
    (finding,) = mlperf.review(log, RULESET).all_findings
    assert finding.rule == f"{RULESET}/closed_llama2_70b_lora/eval_accuracy"
    assert finding.line == 2 * made.index(found[1]) + 2
    assert finding.expected == "eval_accuracy with value at most 0.925 and above 0, at least once"
    assert finding.found == "the best of 4: 0.926"


def initialised_in(minutes: float) -> Callable[[list[Entry]], None]:
    def change(made: list[Entry]) -> None:
        for each in made[: made.index(find(made, "init_stop"))]:
            each["time_ms"] -= 60_000 * minutes

    return change


@pytest.mark.parametrize(
    ("change", "expected", "found"),
    [
        (
            initialised_in(32.15),
            "init_stop less than 30 minutes after init_start",
            "init_stop 32.3 minutes after init_start",
        ),
        (setting("lora_rank", 4), "lora_rank with value equal to 16", "lora_rank 4"),
        (
            setting("submission_division", "half open"),
            "submission_division with value one of closed, open",
            "submission_division half open",
        ),
        (
            lambda made: find(made, "block_start").update(metadata={"file": "a", "lineno": 1}),
            "block_start with epoch_count or samples_count in its metadata",
            "block_start metadata with file, lineno",
        ),
        (
            lambda made: made.insert(0, made.pop(made.index(find(made, "run_start")))),
            "run_start after init_stop",
            "run_start before init_stop",
        ),
    ],
)
def test_a_condition_is_told_in_words_with_what_decided(
    log: Path, change: Callable[[list[Entry]], None], expected: str, found: str
) -> None:
    made = entries()
    change(made)
    log.write_text(text(made))
    findings = mlperf.review(log, RULESET).all_findings
    assert (expected, found) in [(finding.expected, finding.found) for finding in findings]


def test_no_condition_is_python() -> None:
    """Every condition of every ruleset, but for arithmetic, is put into words."""
    for ruleset in mlperf.rulesets()[1:]:
        for file in compiled(ruleset).files.values():
            rules = file.keys.values()
            somes = [rule.some for rule in rules if rule.some]
            for test in (*somes, *file.end, *(test for rule in rules for test in (*rule.checks, *rule.first))):
                words = deciding.asked(test)
                assert not re.search(r"\['|==|!=|<|>|\bs\[|\bv\[|\bll\.|is_integer|lambda", words), words
                assert ("what the rule computes" in words) == ("save_model_ts" in test.text)
                decided = deciding.decided(test, {}, None, {"value": None, "metadata": {}}, 1000)
                assert all(isinstance(part, str) for part in decided)


@pytest.mark.parametrize(
    "change",
    [
        lambda each: each.pop("time_ms"),
        lambda each: each.pop("metadata"),
        lambda each: each.update(time_ms=None),
        lambda each: each.update(time_ms=10**400),
        lambda each: each.update(key="submission_benchmark", value="no_such_benchmark"),
        lambda each: each.update(key="eval_accuracy", value="high"),
    ],
)
def test_where_the_official_checker_ends_in_a_traceback_there_is_a_finding(
    log: Path, change: Callable[[Entry], object]
) -> None:
    made = entries()
    broken = find(made, "seed")
    change(broken)
    if broken.get("key") == "submission_benchmark":
        made = [broken, *(each for each in made if each["key"] != "submission_benchmark")]
    log.write_text(text(made))
    assert official.verdict(log, RULESET) == "CRASH"
    line = 2 * next(at for at, each in enumerate(made) if each is broken) + 2
    assert line in [found for _, found in rules_of(log)]


def test_a_benchmark_cannot_name_a_file(log: Path) -> None:
    made = entries()
    find(made, "submission_benchmark")["value"] = "../../training_5.1.0/closed_llama31_8b"
    log.write_text(text(made))
    assert mlperf.review(log, RULESET).verdict == "fail"


def test_a_rule_file_that_asks_for_itself_ends(log: Path) -> None:
    made = entries()
    find(made, "submission_benchmark")["value"] = "common"  # the official checker never comes back from this
    log.write_text(text(made))
    assert mlperf.review(log, RULESET).verdict == "fail"


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 10**20),
    st.floats(),
    st.sampled_from(["", "closed", "open", "flux1", "dlrmv4", "llama31_8b", "%99999d", "0.3"]),
    st.lists(st.integers(), max_size=2),
    st.just({}),
)


@settings(max_examples=150)
@given(data=st.data())
def test_the_verdict_is_the_official_one_whatever_is_changed(log: Path, data: st.DataObject) -> None:
    made = entries()
    ruleset = data.draw(st.sampled_from([name for name in mlperf.rulesets() if name > "mlperf-0.6"]))
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(made) - 1))
        how = data.draw(st.sampled_from(["value", "metadata", "time_ms", "key", "delete", "repeat", "swap"]))
        if how == "delete":
            del made[at]
        elif how == "repeat":
            made.insert(data.draw(st.integers(0, len(made))), made[at])
        elif how == "swap":
            made[at], made[0] = made[0], made[at]
        elif how == "key":
            made[at] = {**made[at], "key": data.draw(st.sampled_from([*maker.SETTINGS, "eval_accuracy", "opt_name"]))}
        else:
            made[at] = {**made[at], how: data.draw(VALUES)}
    lines = [f":::MLLOG {json.dumps(each)}" for each in made]
    joint = data.draw(st.sampled_from(["\n", "\r\n", "\r", "\nother :::ML output\n", "\nprefix: "]))
    tail = data.draw(st.sampled_from(["", " ", "\xa0", "x"]))
    log.write_bytes((joint.join(lines) + tail).encode("latin-1"))
    rules_of(log, ruleset)


def test_every_ruleset_compiles_and_says_by_what_was_judged(log: Path) -> None:
    log.write_text(text(entries()))
    for ruleset in mlperf.rulesets():
        provenance = mlperf.review(log, ruleset).provenance
        assert provenance.version == "4.1.68"
        if ruleset != "mlperf-0.5":
            assert provenance.rule_files[f"{rulefiles.folder(ruleset)}/common.yaml"]
            assert all(len(each) == 64 for each in provenance.rule_files.values())
    assert mlperf.rulesets()[0] == "mlperf-0.5"
    assert mlperf.rulesets()[-1] == "mlperf-6.1"


@pytest.mark.parametrize("name", ["mlperf-5.1", "5.1", "v5.1", "mlperf-5.1.0"])
def test_a_ruleset_by_its_names(name: str) -> None:
    assert rulefiles.known(name) == "mlperf-5.1"


def test_an_unknown_ruleset_is_the_users_mistake(log: Path) -> None:
    with pytest.raises(UserError, match=r"mlperf-6\.1"):
        mlperf.review(log, "mlperf-6.2")


def test_a_changed_rule_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "training_5.1.0"
    folder.mkdir()
    for name, content in rulefiles.contents("mlperf-5.1").items():
        if name.startswith(folder.name):
            (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(rulefiles.resources, "files", lambda _: tmp_path)
    assert rulefiles.contents("mlperf-5.1")
    (folder / "common.yaml").write_bytes((folder / "common.yaml").read_bytes() + b"\n# one more line")
    with pytest.raises(UserError, match=r"training_5\.1\.0/common\.yaml"):
        rulefiles.contents("mlperf-5.1")
