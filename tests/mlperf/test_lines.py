"""The lines of every round, with the oddities of real logs, and their numbers in the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from suite import mlperf
from suite.mlperf import lines
from tests.mlperf import maker, official
from tests.mlperf.maker import RULESET, entries, entry

GOOD = json.dumps(entry(5, "seed", 1))


def read(content: str, ruleset: str = RULESET) -> lines.Log:
    return lines.read(content.encode("latin-1"), ruleset, lines.ALL)


@pytest.mark.parametrize(
    "content",
    [
        f":::MLLOG {GOOD}",
        f" 0: :::MLLOG {GOOD}\n",
        f"[1,0]<stdout>:\x1b[0m:::MLLOG  {GOOD} \r\n",
        f"junk:::MLLOG {GOOD}:::MLLOG {GOOD}\n",
        f"progress 3%\rprogress 4%\r:::MLLOG {GOOD}\xa0\n",
    ],
)
def test_a_token_anywhere_in_a_line(content: str) -> None:
    log = read(content)
    assert [(line.key, line.timestamp, log.number(line.lineno)) for line in log.lines] == [("seed", 5.0, 1)]
    assert not log.problems
    assert log.count == 1


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "null",
        "[]",
        "3",
        '"text"',
        str(entry(5, "seed")),
        "{",
        GOOD + GOOD,
        GOOD.replace('"time_ms"', '"time_s"'),
        "[" * 100_000,
        '{"time_ms": "1.2.3", "key": "a", "value": 1, "metadata": {}}',
    ],
)
def test_a_malformed_line_has_its_number(bad: str) -> None:
    log = read(f"other\n\n:::MLLOG {GOOD}\n:::MLLOG {bad}\nother\n:::MLLOG {GOOD}\n")
    assert [log.number(problem.lineno) for problem in log.problems] == [4]
    assert [log.number(line.lineno) for line in log.lines] == [3, 6]
    assert log.count == 2


@pytest.mark.parametrize("metadata", ['""', "null", "[]", "{}"])
def test_metadata_may_be_anything(metadata: str) -> None:
    log = read(f':::MLLOG {{"time_ms": 1.5, "key": "a", "value": 1, "metadata": {metadata}}}\n')
    assert [line.value["metadata"] for line in log.lines] == [json.loads(metadata)]


def test_lines_are_counted_by_line_feeds() -> None:
    log = read(f"a\rb\r\nc\n:::MLLOG {GOOD}\r:::MLLOG {GOOD}\r\n:::MLLOG {GOOD}")
    assert [log.number(line.lineno) for line in log.lines] == [3, 3, 4]


def test_round_0_6() -> None:
    content = '0: :::MLL 1556733699.710 run_start: {"value": null, "metadata": {"lineno": 77, "file": "main.py"}}\n'
    log = read("junk\n" + content + ":::MLL run_stop\n", "mlperf-0.6")
    assert [(line.key, line.timestamp, log.number(line.lineno)) for line in log.lines] == [
        ("run_start", 1556733699.710, 2)
    ]
    assert [log.number(problem.lineno) for problem in log.problems] == [3]


def test_round_0_5() -> None:
    log = read(
        ":::MLPv0.5.0 ssd 1540247495.296750784 (train.py:277) run_start\n"
        "other\n"
        'x :::MLPv0.5.0 ssd 1540247500.5 (/a b/train.py:9) eval_accuracy: {"epoch": 3, "value": 0.2}\n'
        ":::MLPv0.5.0 ssd when (train.py:9) run_stop\n",
        "mlperf-0.5",
    )
    assert [(line.key, line.value["value"], log.number(line.lineno)) for line in log.lines] == [
        ("run_start", None, 1),
        ("eval_accuracy", {"epoch": 3, "value": 0.2}, 3),
    ]
    assert [log.number(problem.lineno) for problem in log.problems] == [4]


def test_a_log_of_round_0_5_is_scored(tmp_path: Path) -> None:
    log = tmp_path / "result_0.txt"
    log.write_text(
        ":::MLPv0.5.0 ssd 100.5 (train.py:277) run_start\n:::MLPv0.5.0 ssd 220.5 (train.py:9) run_stop: {}\n"
    )
    review = mlperf.review(log, "mlperf-0.5")
    assert review.verdict == "pass"
    assert [finding.severity for finding in review.findings] == ["note"]  # that there are no rules
    assert review.logs[0].minutes == 2
    assert review.logs[0].benchmark == "ssd"


def test_a_log_of_round_0_6_is_held_to_its_rules_and_timed_in_seconds(tmp_path: Path) -> None:
    log = tmp_path / "result_0.txt"
    lines_of_run = [
        ("cache_clear", True, {}),
        ("init_start", None, {}),
        *[(f"submission_{key}", "x", {}) for key in ("org", "platform", "poc_name", "entry")],
        ("submission_division", "closed", {}),
        ("submission_status", "onprem", {}),
        ("submission_benchmark", "ssd", {}),
        ("init_stop", None, {}),
        ("run_start", None, {}),
        ("run_stop", None, {"status": "success"}),
    ]
    log.write_text(
        "".join(
            f":::MLL {100 + at * 60}.0 {key}: {json.dumps({'value': value, 'metadata': metadata})}\n"
            for at, (key, value, metadata) in enumerate(lines_of_run)
        )
    )
    review = mlperf.review(log, "mlperf-0.6")
    assert review.logs[0].minutes == 1
    assert review.verdict == "fail"
    assert official.verdict(log, "mlperf-0.6") == "FAIL"
    assert "mlperf-0.6/common/epoch_start" in {finding.rule for finding in review.all_findings}
    assert any(finding.rule.startswith("mlperf-0.6/ssd/") for finding in review.all_findings)


def test_a_run_is_timed_where_both_its_ends_have_been_met() -> None:
    """As the official summarizer has it: the latest of each there, even a run_stop that came first."""
    keys = ("run_stop", "run_start", "run_start", "run_stop")
    for seen, found in ((keys, (2, 1)), (keys[1:], (2, 3)), (keys[2:], (1, 2)), (keys[:1], None), (keys[1:3], None)):
        log = lines.Log("", [], [lines.LogLine(float(at), key, {}, at) for at, key in enumerate(seen, 1)])
        timed = log.timed()
        assert (timed and tuple(each.lineno for each in timed)) == found


@pytest.mark.parametrize("malformed", [lines.MAX_PROBLEMS - 1, lines.MAX_PROBLEMS, lines.MAX_PROBLEMS + 1])
def test_a_file_is_given_up_at_so_many_malformed_lines(malformed: int) -> None:
    log = read(":::MLLOG {\n" * malformed + f":::MLLOG {GOOD}\n")
    assert log.cut == (malformed >= lines.MAX_PROBLEMS)
    assert len(log.problems) == min(malformed, lines.MAX_PROBLEMS)


def test_no_line_at_all(tmp_path: Path) -> None:
    log = tmp_path / "result_0.txt"
    log.write_text("nothing of note\n")
    review = mlperf.review(log, RULESET)
    assert review.verdict == "fail"
    assert [finding.expected for finding in review.all_findings] == ["lines that begin with :::MLLOG"]
    assert official.verdict(log, RULESET) == "FAIL"


def test_prefixes_and_other_output_change_no_verdict(tmp_path: Path) -> None:
    log = tmp_path / "result_0.txt"
    log.write_bytes(b"".join(b"\xff 3: " + line.encode() + b"\r\n" for line in maker.text(entries()).splitlines()))
    assert mlperf.review(log, RULESET).verdict == "pass"
    assert official.verdict(log, RULESET) == "PASS"
