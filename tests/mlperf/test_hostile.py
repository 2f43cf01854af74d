"""Submissions that mean harm: no exception, no hang, nothing read outside, nothing boundless."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite import mlperf
from suite.errors import UserError
from suite.mlperf import lines, logs, reviewing
from tests.json_values import JSON
from tests.mlperf import maker
from tests.mlperf.maker import RULESET, entries, find, text

QUIET = settings(max_examples=100)
PIECES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b":::MLL 1.0 run_start: 5\n", b':::MLL 1.0 eval_accuracy: "a value"\n']),
    st.sampled_from([b":::MLLOG ", b":::MLL 1.5 run_start: ", b":::MLPv0.5.0 ssd 1.5 (a:1) ", b"\n", b"\r", b"\x85"]),
    st.sampled_from(
        [b'{"time_ms": 1, "key": "run_start", "value": ', b'"metadata": {}}', b"[" * 990, b"1" * 4301, b"NaN"]
    ),
)


def verdict_of(path: Path, ruleset: str = RULESET) -> str:
    review = mlperf.review(path, ruleset, strict=True)
    for finding in review.all_findings:
        assert all(text.isprintable() for text in (finding.file, finding.expected, finding.found))
    return review.verdict


@QUIET
@given(pieces=st.lists(PIECES, max_size=30), ruleset=st.sampled_from(mlperf.rulesets()))
def test_any_bytes(tmp_path: Path, pieces: list[bytes], ruleset: str) -> None:
    log = tmp_path / "result_0.txt"
    log.write_bytes(b"".join(pieces))
    verdict_of(log, ruleset)


@QUIET
@given(data=st.data())
def test_any_values(tmp_path: Path, data: st.DataObject) -> None:
    made = entries()
    for _ in range(5):
        each = data.draw(st.sampled_from(made))
        each[data.draw(st.sampled_from(["value", "metadata", "key", "time_ms"]))] = data.draw(JSON)
    log = tmp_path / "result_0.txt"
    log.write_text(text(made))
    verdict_of(log)


def test_a_name_is_safe_to_print(tmp_path: Path) -> None:
    log = tmp_path / "result_0.txt"
    log.write_bytes(b":::MLPv0.5.0 ss\x1b[31md 1.5 (a:1) run_start\n")
    assert [each.benchmark for each in mlperf.review(log, "mlperf-0.5").logs] == ["ss\\x1b[31md"]


def test_a_folder_that_cannot_be_read_is_no_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = maker.package(tmp_path, runs=2)
    hidden = results.parent / "hidden"
    hidden.mkdir()
    look = os.scandir

    def refuse(path: str) -> object:
        if str(path) == str(hidden):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return look(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(UserError, match=r"cannot review .*/hidden: Permission denied"):
        mlperf.review(tmp_path, RULESET)


def test_what_is_no_plain_file_is_not_opened_to_wait(tmp_path: Path) -> None:
    results = maker.package(tmp_path, runs=3)
    os.mkfifo(results / "result_8.txt")
    (results / "result_9.txt").mkdir()
    (results / "result_7.txt").symlink_to("/dev/zero")
    review = mlperf.review(results, RULESET)
    assert review.verdict == "error"
    assert [(Path(log.path).name, log.verdict) for log in review.logs][-1] == ("result_8.txt", "error")
    assert [Path(finding.file).name for finding in review.findings if finding.severity == "error"] == ["result_7.txt"]


def killed(*task: object) -> None:
    os._exit(1)


def test_a_process_that_is_killed_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviewing, "usable_cpus", lambda: 2)
    monkeypatch.setattr(reviewing, "review_log", killed)
    with pytest.raises(UserError, match="a process that reviews logs was killed, perhaps for want of memory"):
        mlperf.review(maker.package(tmp_path, runs=16), RULESET)


def test_a_folder_that_links_to_itself(tmp_path: Path) -> None:
    results = maker.package(tmp_path, runs=2)
    (results / "again").symlink_to(tmp_path)
    assert len(mlperf.review(tmp_path, RULESET).logs) == 2


@pytest.mark.parametrize("size", [10 << 30, logs.MAX_BYTES + 1])
def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, size: int) -> None:
    log = tmp_path / "result_0.txt"
    with log.open("wb") as file:
        file.truncate(size)
    assert verdict_of(log) == "error"


def test_too_many_lines(tmp_path: Path) -> None:
    log = tmp_path / "result_0.txt"
    log.write_text(":::MLLOG {}\n" * (lines.MAX_LINES + 1))
    assert verdict_of(log) == "error"


def test_of_many_malformed_lines_the_first_thousand_are_shown(tmp_path: Path) -> None:
    log = tmp_path / "result_0.txt"
    log.write_text(":::MLLOG [[[\n" * 20_000)
    review = mlperf.review(log, RULESET)
    assert review.verdict == "fail"
    assert {finding.rule for finding in review.all_findings} == {f"{RULESET}/line"}
    assert [finding.line for finding in review.all_findings] == list(range(1, 1001))


@pytest.mark.parametrize("depth", [150, 400, 900, 960, 985])
def test_deep_values(tmp_path: Path, depth: int) -> None:
    log = tmp_path / "result_0.txt"
    deep = "[" * depth + "]" * depth
    log.write_text(
        text(entries()).replace('"value": "fp8"', f'"value": {deep}').replace('"value": 3901', f'"value": {deep}')
    )
    assert verdict_of(log) in ("fail", "error")


def test_a_value_cannot_ask_for_memory(tmp_path: Path) -> None:
    """`samples_count % interval` is a rule of dlrmv4: with text it would be formatting."""
    made = entries()
    find(made, "submission_benchmark")["value"] = "dlrmv4"
    find(made, "eval_accuracy")["metadata"]["samples_count"] = "%99999999999d"
    log = tmp_path / "result_0.txt"
    log.write_text(text(made))
    assert verdict_of(log) == "fail"


@QUIET
@given(
    content=st.one_of(st.binary(max_size=200), st.sampled_from([b"[" * 5000, b"{}", b'{"status": {}}', b"\xff\xfe"]))
)
def test_any_system_description(tmp_path: Path, content: bytes) -> None:
    root = tmp_path / "package"
    if not root.exists():
        maker.package(root, runs=2)
    (root / maker.ORG / "systems" / f"{maker.SYSTEM}.json").write_bytes(content)
    (root / maker.ORG / "results" / maker.SYSTEM / maker.BENCHMARK / "scaling.json").write_bytes(content)
    verdict_of(root)
