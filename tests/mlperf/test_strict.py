"""What MLCommons' rule files let through: each breach passes them, and fails strictly for that reason alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from suite import mlperf
from suite.mlperf import strict
from tests.mlperf import maker, official
from tests.mlperf.found import strict_findings
from tests.mlperf.maker import RULESET, Entry, entries, entry, evaluate, every, find, setting, text


def no_cache_cleared(made: list[Entry]) -> Entry:
    found = find(made, "cache_clear")
    found["value"] = False
    return found


def cache_cleared_at_the_end(made: list[Entry]) -> Entry:
    late = {**find(made, "cache_clear"), "time_ms": made[-1]["time_ms"] + 5}
    made.remove(find(made, "cache_clear"))
    made.append(late)
    return late


def cache_cleared_in_the_run(made: list[Entry]) -> Entry:
    late = {**find(made, "cache_clear"), "time_ms": find(made, "run_start")["time_ms"] + 2_000}
    made.remove(find(made, "cache_clear"))
    made.insert(made.index(find(made, "eval_start")), late)
    return late


def stopped_with(status: str) -> Callable[[list[Entry]], Entry]:
    def change(made: list[Entry]) -> Entry:
        find(made, "run_stop")["metadata"]["status"] = status
        return find(made, "run_stop")

    return change


def time_runs_back(key: str, ms: int) -> Callable[[list[Entry]], Entry]:
    def change(made: list[Entry]) -> Entry:
        found = every(made, key)[-1]
        found["time_ms"] -= ms
        return found

    return change


def first_evaluation_skipped(made: list[Entry]) -> Entry:
    first = made.index(find(made, "eval_start"))
    del made[first : first + 3]
    return find(made, "eval_accuracy")


def evaluation_off(made: list[Entry]) -> Entry:
    last = every(made, "eval_accuracy")[-1]
    last["metadata"]["samples_count"] += 8
    return last


def logged_again(key: str, ms: int) -> Callable[[list[Entry]], Entry]:
    def change(made: list[Entry]) -> Entry:
        again = {**find(made, key), "time_ms": find(made, key)["time_ms"] + ms}
        made.append(again)
        made.sort(key=lambda each: each["time_ms"])
        return again

    return change


def passes_after_the_run(made: list[Entry]) -> Entry:
    evaluate(made, *[0.95] * 4)
    late = entry(made[-1]["time_ms"] + 60_000, "eval_accuracy", 0.9, samples_count=2688 + 384)
    made.append(late)
    return late


def passes_in_a_line_after_the_run(made: list[Entry]) -> Entry:
    late = passes_after_the_run(made)
    late["time_ms"] -= 60_010
    return late


def passes_at_a_time_after_the_run(made: list[Entry]) -> Entry:
    last = [each for each in made if each["key"] in ("eval_accuracy", "eval_stop")][-2:]
    for each in last:
        each["metadata"]["file"] = "evaluate.py"  # whose clock is another's
        each["time_ms"] += 900
    return last[0]


def qualities(*values: float) -> Callable[[list[Entry]], Entry]:
    """These in place of the evaluations' qualities; the first that reaches the target, 0.925, is at fault."""

    def change(made: list[Entry]) -> Entry:
        return next(each for each in evaluate(made, *values) if each["value"] <= 0.925)

    return change


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("hyperparameter", setting("opt_gradient_clip_norm", 1.0)),
        ("hyperparameter", setting("opt_adamw_weight_decay", 0.01)),
        ("hyperparameter", setting("lora_alpha", 16)),
        ("hyperparameter", setting("eval_samples", 100)),
        ("cache-clear", no_cache_cleared),
        ("cache-clear", cache_cleared_at_the_end),
        ("cache-clear", cache_cleared_in_the_run),
        ("status", stopped_with("done")),
        ("status", stopped_with("aborted")),
        ("timed-run", logged_again("run_start", 2_000)),
        ("timed-run", logged_again("run_stop", 2_000)),
        ("clock", time_runs_back("eval_stop", 5_000)),
        ("clock", time_runs_back("eval_stop", 600)),
        ("clock", time_runs_back("seed", 3_000)),
        ("schedule", evaluation_off),
        ("schedule", first_evaluation_skipped),
        ("outside-run", passes_after_the_run),
        ("outside-run", passes_in_a_line_after_the_run),
        ("outside-run", passes_at_a_time_after_the_run),
        ("stop", qualities(0.95, 0.924, 0.923, 0.922)),
        ("stop", qualities(0.924, 0.93, 0.94, 0.924)),
    ],
)
def test_a_breach_in_a_log(tmp_path: Path, rule: str, change: Callable[[list[Entry]], Entry]) -> None:
    made = entries()
    at_fault = change(made)
    log = tmp_path / "result_0.txt"
    log.write_text(text(made))
    assert official.verdict(log, RULESET) == "PASS"
    assert mlperf.review(log, RULESET).verdict == "pass"
    line = 2 * next(at for at, each in enumerate(made) if each is at_fault) + 2
    assert strict_findings(log) == [(rule, log.name, line)]
    assert f"mlperf-strict/{rule}" in strict.RULES


def test_a_clock_that_is_cut(tmp_path: Path) -> None:
    """The official summarizer takes the last run_start before the first run_stop."""
    log = tmp_path / "result_0.txt"
    for key, next_to in (("run_start", "block_stop"), ("run_stop", "block_start")):
        made = entries()
        at = made.index(find(made, next_to))
        made.insert(at, {**find(made, key), "time_ms": made[at]["time_ms"]})
        log.write_text(text(made))
        assert official.verdict(log, RULESET) == "PASS"
        review = mlperf.review(log, RULESET, strict=True)
        minutes = review.logs[0].minutes
        assert minutes is not None
        assert minutes < 0.1
        assert {rule for rule, _, _ in strict_findings(log)} == {"timed-run", "outside-run"}


PREFIXES: dict[str, Callable[[int], str]] = {
    "none": lambda at: "",
    "rank": lambda at: "0: ",
    "time": lambda at: f"2025-01-01T00:00:{at:06d} ",
    "time and rank": lambda at: f"[2025-01-01 00:{at:02d}:00,{at:03d}] [rank0]: ",
    "a name each": lambda at: f"worker-{at} ",
    "a rank each": lambda at: f"{at}: ",
}


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_a_prefix_does_not_hide_that_time_runs_back(tmp_path: Path, prefix: Callable[[int], str]) -> None:
    log = tmp_path / "result_0.txt"

    def write(made: list[Entry]) -> None:
        log.write_text("".join(f"{prefix(at)}:::MLLOG {json.dumps(each)}\n" for at, each in enumerate(made)))

    made = entries()
    write(made)
    assert strict_findings(log) == []
    first = made.index(find(made, "eval_start"))
    for each in made[first : first + 6]:
        each["time_ms"] -= 90_000
    write(made)
    assert strict_findings(log) == [("clock", log.name, first + 1)]


def test_lines_without_a_time_do_not_hide_that_time_runs_back(tmp_path: Path) -> None:
    made = entries()
    at = made.index(find(made, "eval_accuracy"))
    made.insert(at, entry(float("nan"), "eval_start", samples_count=0))
    log = tmp_path / "result_0.txt"
    log.write_text(text(made))
    assert strict_findings(log)[0] == ("clock", log.name, 2 * at + 2)


def test_ranks_may_each_log_the_run_s_start_and_stop(tmp_path: Path) -> None:
    log = tmp_path / "result_0.txt"
    made = entries()
    for key in ("run_start", "run_stop"):
        logged_again(key, 900)(made)
    log.write_text(text(made))
    assert strict_findings(log) == []


def late_cache_clear(made: list[Entry]) -> None:
    made.append(made.pop(0))


def evaluations_logged_by_each_rank(made: list[Entry]) -> None:
    made[:] = [each for each in made for _ in range(2 if each["key"] == "eval_accuracy" else 1)]


def two_threads(made: list[Entry]) -> None:
    at = made.index(find(made, "eval_stop"))
    made[at]["time_ms"] = made[at - 1]["time_ms"] - 20


def stopped_a_rounding_early(made: list[Entry]) -> None:
    end = every(made, "eval_accuracy")[-1]["time_ms"] - 10
    for each in made[-3:]:
        each["time_ms"] = end


def each_rank_begins_at_its_time(made: list[Entry]) -> None:
    for key in ("cache_clear", "init_start"):
        at = made.index(find(made, key))
        made[at:at] = [{**made[at], "time_ms": made[at]["time_ms"] + late} for late in (8_000, 2_000, 5_000)]


def settings_written_after_the_run(made: list[Entry]) -> None:
    end = made[-1]["time_ms"]
    for each in made:
        if each["key"] in maker.SETTINGS or each["key"] == "seed":
            each["time_ms"] = end + 3_500


def figures_written_later(made: list[Entry]) -> None:
    made.insert(len(made) - 2, entry(made[-1]["time_ms"] + 6_000, "tracked_stats", {"throughput": 1.0}))


@pytest.mark.parametrize(
    "change",
    [
        late_cache_clear,
        evaluations_logged_by_each_rank,
        two_threads,
        stopped_a_rounding_early,
        each_rank_begins_at_its_time,
        settings_written_after_the_run,
        figures_written_later,
    ],
)
def test_what_honest_logs_do_is_in_order(tmp_path: Path, change: Callable[[list[Entry]], None]) -> None:
    made = entries()
    change(made)
    log = tmp_path / "result_0.txt"
    log.write_text(text(made))
    assert official.verdict(log, RULESET) == "PASS"
    assert strict_findings(log) == []


def test_one_setting_of_another_time_is_found(tmp_path: Path) -> None:
    made = entries()
    find(made, "lora_rank")["time_ms"] = made[-1]["time_ms"] + 86_400_000
    log = tmp_path / "result_0.txt"
    log.write_text(text(made))
    assert strict_findings(log) == [("clock", log.name, 2 * made.index(find(made, "lora_rank")) + 4)]


def test_a_run_of_the_open_division_may_go_on(tmp_path: Path) -> None:
    made = entries()
    qualities(0.95, 0.924, 0.923, 0.922)(made)
    find(made, "submission_division")["value"] = "open"
    log = tmp_path / "result_0.txt"
    log.write_text(text(made))
    assert strict_findings(log) == []


def test_ranks_that_share_a_file_may_jitter(tmp_path: Path) -> None:
    log = tmp_path / "result_0.txt"
    made = entries()
    made[3:3] = [entry(made[2]["time_ms"] - 400, "weights_initialization")]
    log.write_text(text(made))
    assert strict_findings(log) == []
