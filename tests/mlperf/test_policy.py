"""What MLPerf's policy fixes, as the data that the strict checks read."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.mlperf import policy
from suite.mlperf.lines import LogLine
from tests.mlperf.found import strict_findings
from tests.mlperf.maker import RULESET, Entry, entries, entry, find, text


def lines_of(*made: Entry) -> list[LogLine]:
    return [LogLine(0, each["key"], each, at) for at, each in enumerate(made, 1)]


def test_the_policy_has_the_language_benchmarks_of_the_last_round() -> None:
    for benchmark in ("llama2_70b_lora", "llama31_8b", "gpt_oss_20b", "deepseekv3_671b"):
        assert policy.policy(benchmark, RULESET)
    known = policy.policy("llama2_70b_lora", RULESET)
    assert known
    assert known.fixed == {
        "opt_gradient_clip_norm": 0.3,
        "opt_adamw_weight_decay": 0.0001,
        "lora_alpha": 32,
        "lora_rank": 16,
        "lora_dropout": 0.1,
        "eval_samples": 173,
    }
    assert policy.policy("resnet", "mlperf-0.7") is None


@pytest.mark.parametrize(
    ("batch", "benchmark", "places"),
    [
        (8, "llama2_70b_lora", (1536, 1920)),  # as real logs of round 5.1 have them
        (9, "llama2_70b_lora", (1548, 1935)),
        (64, "llama2_70b_lora", (4224, 4608)),
        (36, "llama31_8b", (12312, 24624)),
        (1008, "llama31_405b", (287280, 306432)),
        (2304, "flux1", (262656, 525312)),
    ],
)
def test_schedules(batch: int, benchmark: str, places: tuple[int, ...]) -> None:
    known = policy.policy(benchmark, "mlperf-5.1")
    assert known

    def departures(found: tuple[int, ...]) -> int:
        evaluations = (entry(0, "eval_accuracy", 1, samples_count=at) for at in found)
        return len(list(policy.schedule(known, lines_of(entry(0, "global_batch_size", batch), *evaluations))))

    assert departures(places) == 0
    assert departures(places[1:]) == 1
    assert departures((places[0], places[1] + batch)) == 1
    assert [departures((places[0] + late, places[1] + late)) for late in (batch, batch + batch // 2)] == [0, 1]


def test_where_the_rule_files_check_the_first_evaluation_the_policy_does_not() -> None:
    known = policy.policy("deepseekv3_671b", RULESET)
    assert known
    evaluations = (entry(0, "eval_accuracy", 1, samples_count=at) for at in (700, 764, 828))
    assert list(policy.schedule(known, lines_of(entry(0, "global_batch_size", 64), *evaluations))) == []


@pytest.mark.parametrize("ruleset", ["mlperf-5.0", "mlperf-5.1"])
@pytest.mark.parametrize(
    ("batch", "steps", "departing"),
    [
        (1152, 8000.0, 0),  # as real logs have them
        (896, 10285.714285714286, 0),
        (1536, 6000, 0),
        (1536, 8000, 1),
        (1152, 7998, 1),
        (1152, "none", 1),
        (5e-324, 8000, 0),  # which is no batch size
    ],
)
def test_steps_by_the_batch_size(ruleset: str, batch: float, steps: float | str, departing: int) -> None:
    known = policy.policy("llama31_405b", ruleset)
    assert known
    lines = lines_of(entry(0, "global_batch_size", batch), entry(0, "opt_learning_rate_warmup_steps", steps))
    assert len(list(policy.hyperparameters(known, lines))) == departing
    assert list(policy.schedule(known, lines)) == []


@pytest.mark.parametrize(
    ("batch", "places", "departing"),
    [
        (2304, (51904512, 103809024, 155713536), 0),  # as real logs of round 4.0 have them
        (2048, (50331648, 100663296), 0),
        (2048, (50331648, 150994944), 1),
        (2048, (100663296, 150994944), 1),
    ],
)
def test_schedules_in_tokens(batch: int, places: tuple[int, ...], departing: int) -> None:
    known = policy.policy("gpt3", "mlperf-4.0")
    assert known
    evaluations = (entry(0, "eval_accuracy", 1, epoch_num=at) for at in places)
    lines = lines_of(entry(0, "global_batch_size", batch), *evaluations)
    assert len(list(policy.schedule(known, lines))) == departing


@pytest.mark.parametrize(
    ("places", "departing"),
    [
        ((0.05, 0.1, 0.15, 0.2, 0.25), 0),
        ((0.05, 0.1, 0.15, 0.19, 0.24, 0.29), 0),  # two decimals, cut off
        ((0.9, 0.94, 0.99, 1, 1.05, 1.1), 0),  # and at the end of the epoch
        ((0.04987, 0.09975, 0.14962), 0),
        ((0.02, 0.04, 0.06), 2),
        ((0.04, 0.08, 0.12, 0.16, 0.2), 2),  # too often by a fifth
        ((0.1, 0.2, 0.3), 2),
        ((0.05, 0.1, 0.13, 0.18), 1),
        ((0.049, 0.09, 0.1312), 2),
    ],
)
def test_schedules_in_parts_of_an_epoch(places: tuple[float, ...], departing: int) -> None:
    known = policy.policy("rgat", "mlperf-5.1")
    assert known
    lines = lines_of(*(entry(0, "eval_accuracy", 0.5, epoch_num=at) for at in places))
    found = [line for line, _, _ in policy.schedule(known, lines)]
    assert len([line for line in found if line is not lines[0]]) == departing


def test_values_written_as_text_and_settings_of_the_open_division(tmp_path: Path) -> None:
    log = tmp_path / "result_0.txt"
    made = entries()
    find(made, "opt_gradient_clip_norm")["value"] = "0.3"
    log.write_text(text(made))
    assert strict_findings(log) == []
    find(made, "opt_gradient_clip_norm")["value"] = 1.0
    find(made, "submission_division")["value"] = "open"
    log.write_text(text(made))
    assert strict_findings(log) == []
