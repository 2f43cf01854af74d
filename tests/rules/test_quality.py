"""The last step at which a run may end, and the first at which it may not; and what counts as having converged."""

import pytest
from mlperf_logging.mllog import constants as keys

from suite.record import evidence
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


@pytest.mark.parametrize(("predictions", "found"), [([], False), (None, True)])
def test_a_run_that_came_to_no_number_has_no_predictions_or_a_quality_that_they_score(run, predictions, found):
    """Predictions that score, of an evaluation that says that they do not, are not its."""
    if predictions is not None:
        path = run.folder / evidence.PREDICTIONS
        sha256 = evidence.write_predictions(path, predictions)
        evidence.keep_predictions(path, sha256)
        run.edit(keys.EVAL_ACCURACY, lambda record: record["metadata"].update(predictions_sha256=sha256), at=-1)
    run.edit(keys.EVAL_ACCURACY, lambda r: r.update(value=None, metadata={**r["metadata"], "metrics": {}}), at=-1)
    run.edit(keys.RUN_STOP, lambda record: record["metadata"].update(status=keys.ABORTED, reason="diverged"))
    made = review(run.folder)
    assert ("quality.6" in rules_of(made.findings), made.verdict == "fail") == (found, found), made.findings
