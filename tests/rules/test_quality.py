"""The last step at which a run may end, and the first at which it may not; and what counts as having converged."""

import pytest
from mlperf_logging.mllog import constants as keys

from suite.rules.reading import RUN, Evidence
from suite.rules.verdict import review
from tests.rules.evidence_maker import isolate, write_result
from tests.rules.found import rules_of
from tests.rules.mutants.outcome import aborted_at_the_target, interrupted, success_below_the_target
from tests.rules.subject import BENCHMARK

ENDED = 6000  # samples of a made-up run, in steps of 100


def ended(run, reason="target", samples=ENDED):
    run.edit(keys.RUN_STOP, lambda record: record["metadata"].update(reason=reason, samples_count=samples))
    return Evidence.read(run.folder)


@pytest.mark.parametrize(
    ("budget", "reason", "found"),
    [(5901, "target", 0), (5900, "target", 1), (6000, "budget", 0), (6001, "budget", 1)],
)
def test_a_run_ends_at_the_first_step_at_its_budget_or_after_it(run, budget, reason, found):
    made = ended(run, reason)
    made.benchmark = BENCHMARK.model_copy(update={"budget_samples": budget})
    assert len([*RUN.by_rule["quality.4"](made)]) == found


@pytest.mark.parametrize(("samples", "found"), [(7000, 0), (7099, 0), (7100, 1)])
def test_a_run_ends_before_the_step_after_which_it_is_to_be_evaluated_again(run, samples, found):
    assert len([*RUN.by_rule["quality.3"](ended(run, samples=samples))]) == found


def test_of_two_runs_none_is_dropped(tmp_path, monkeypatch):
    isolate(monkeypatch, tmp_path)
    _, lost = write_result(tmp_path / "result", 2)
    interrupted(lost)
    made = review(tmp_path / "result")
    assert (made.verdict, made.results[0].score_s) == ("pass", None)
    assert "runs.7" in rules_of(made.findings)


@pytest.mark.parametrize("mutate", [success_below_the_target, aborted_at_the_target])
def test_a_run_has_converged_if_both_its_status_and_its_quality_say_so(run, mutate):
    mutate(run)
    made = review(run.folder)
    assert (made.verdict, made.converged, made.results[0].score_s) == ("fail", False, None)
