"""Checkpoints that are evaluated later or by another program, and a target that the rule files do not have."""

from __future__ import annotations

import json

import pytest

from suite.mlperf import lines, strict
from suite.mlperf.engine import Outcome
from suite.rules.finding import Finding
from tests.mlperf.maker import Entry, entry

RULESET = "mlperf-0.7"
MISSED = Finding("log", None, "the target", "less", "reach it")


def found(made: list[Entry], benchmark: str, missed: bool = False) -> list[tuple[str, int | None]]:
    """Rule and line of each finding; all evaluations count as passing unless the target was `missed`."""
    content = "".join(f":::MLLOG {json.dumps(each)}\n" for each in made)
    log = lines.read(content.encode(), RULESET, lines.ALL)
    passing = [line for line in log.lines if line.key == "eval_accuracy" and not missed]
    outcome = Outcome([MISSED] * missed, passing, [MISSED] * missed)
    told = {"submission_benchmark": benchmark, "submission_division": "closed"}
    findings = strict.findings(log, outcome, RULESET, told, "log")
    return [(each.rule.removeprefix("mlperf-strict/"), each.line) for each in findings]


def of_evaluations(*evaluations: Entry) -> list[Entry]:
    stop = entry(200_000, "run_stop", status="success")
    return [entry(0, "run_start"), entry(100_000, "epoch_stop"), *evaluations, stop]


@pytest.mark.parametrize(("benchmark", "clock"), [("bert", []), ("resnet", [("clock", 3)])])
def test_evaluations_may_be_logged_with_their_checkpoints_times(
    benchmark: str, clock: list[tuple[str, int | None]]
) -> None:
    assert found(of_evaluations(entry(50_000, "eval_accuracy", 0.8, epoch_num=1)), benchmark) == clock


@pytest.mark.parametrize(("benchmark", "status"), [("stable_diffusion", []), ("resnet", [("status", 4)])])
def test_a_run_whose_checkpoints_another_program_evaluates_may_end_with_success(
    benchmark: str, status: list[tuple[str, int | None]]
) -> None:
    made = of_evaluations(entry(150_000, "eval_accuracy", 0.8, epoch_num=1))
    assert found(made, benchmark, missed=True) == status


@pytest.mark.parametrize(("first", "stop"), [(0.711, []), (0.7121, [("stop", 3)])])
def test_a_run_goes_on_to_the_policy_s_target_where_the_rule_files_let_a_lower_one_pass(
    first: float, stop: list[tuple[str, int | None]]
) -> None:
    evaluations = (entry(110_000 + at, "eval_accuracy", (first, 0.72)[at], epoch_num=1 + at) for at in (0, 1))
    assert found(of_evaluations(*evaluations), "bert") == stop
