"""The HTML page of an MLPerf review."""

import json

import pytest

from suite import mlperf
from suite.mlperf.lines import MAX_LINES
from suite.rules.finding import Finding
from tests.review.page import HOSTILE, page_of, sound


def stand_in(monkeypatch, findings):
    """An MLPerf review with these findings in its one log."""
    log = mlperf.reviewing.LogReview("log.txt", "fail", findings, "fail")
    provenance = mlperf.Provenance("mlperf-5.1", False, "wheel", "1.0", {"closed.yaml": "ab" * 32})
    made = mlperf.Review("fail", [], [log], [], provenance, findings)
    monkeypatch.setattr(mlperf, "review", lambda *given: made)


def test_findings_of_another_ruleset_are_text_as_well(tmp_path, monkeypatch):
    evil = HOSTILE[0]
    (tmp_path / "log.txt").write_text("one\n:::MLLOG {}\n")
    stand_in(monkeypatch, [Finding("log.txt", 2, evil, evil, "mend it", rule="mlperf-5.1/seed")])
    page = page_of(tmp_path / "log.txt", tmp_path, "--ruleset", "mlperf-5.1")
    sound(page)
    assert page.text.count(evil) == 2
    assert ":::MLLOG {}" in page.text
    assert "By what was judged" in page.text
    assert "ab" * 32 in page.text


def test_page_that_is_bounded_shows_every_rule(tmp_path, monkeypatch):
    findings = [Finding("log.txt", at, f"a{at}", "b", "c", rule="flood") for at in range(1, 3001)]
    findings += [Finding("log.txt", at, f"a{at}", "b", "c", rule="rare") for at in (7, 8)]
    stand_in(monkeypatch, findings)
    (tmp_path / "log.txt").write_text("")
    page = page_of(tmp_path / "log.txt", tmp_path, "--ruleset", "mlperf-5.1")
    sound(page)
    assert page.tags.count("article") == 2000
    assert ("href", "#finding-1999") in page.attributes
    assert "log.txt:7" in page.text
    assert "1,002 more findings are not on this page" in page.text


def mlperf_log(path):
    events = [("init_start", 0, None), ("init_stop", 5, None), ("run_start", 6, None), ("block_start", 7, None)]
    events += [("eval_start", 60, None), ("eval_accuracy", 64, 0.5), ("eval_stop", 65, None), ("block_stop", 66, None)]
    events += [("eval_accuracy", 90, 0.75), ("eval_accuracy", 95, "<b>"), ("run_stop", 96, None)]
    lines = [
        ":::MLLOG "
        + json.dumps(
            {
                "namespace": "",
                "time_ms": 1_700_000_000_000 + 1000 * at,
                "event_type": "POINT_IN_TIME",
                "key": key,
                "value": value,
                "metadata": {"file": "f", "lineno": 1, "samples_count": 10 * at},
            }
        )
        for key, at, value in events
    ]
    path.write_text("\n".join(f"0: {line}" for line in lines) + "\n")


def test_mlperf_s_logs_are_drawn_as_well(tmp_path, monkeypatch):
    (tmp_path / "result").mkdir()
    mlperf_log(tmp_path / "result" / "log.txt")
    stand_in(monkeypatch, [])
    page = page_of(tmp_path / "result", tmp_path, "--ruleset", "mlperf-5.1")
    sound(page)
    assert page.tags.count("polyline") == 2
    for text in ("initialise", "-6.0", "-1.0", "58.0", "0.75", "900"):
        assert text in page.text
    assert "1 more are left out" in page.text


@pytest.mark.parametrize(
    ("ruleset", "content"),
    [
        ("mlperf-0.6", ":::MLL 1.0 run_start: 5\n:::MLL 2.0 eval_accuracy: null\n"),
        ("mlperf-0.6", ':::MLL 1.0 run_start: null\n:::MLL 2.0 eval_accuracy: "a value"\n'),
        ("mlperf-6.1", ":::MLLOG {}\n" * (MAX_LINES + 1)),
    ],
)
def test_mlperf_s_logs_of_any_content_have_a_page(tmp_path, ruleset, content):
    (tmp_path / "log.txt").write_text(content)
    sound(page_of(tmp_path / "log.txt", tmp_path, "--ruleset", ruleset, "--strict"))
