"""Mutants of the chapter on audits: sums of states that are missing, no sums, or come twice."""

from __future__ import annotations

from mlperf_logging.mllog import constants as keys

from suite.config import logkeys
from tests.rules.editor import Evidence
from tests.rules.mutants.registry import breaks, breaks_result, drop, index_of


@breaks("audit.1")
def no_initial_state(run):
    run.edit_log(drop(logkeys.STATE))


@breaks("audit.1")
def an_initial_state_that_is_no_sum(run):
    run.edit(logkeys.STATE, lambda record: record.update(value=True))


@breaks("audit.1")
def two_initial_states(run):
    def change(records):
        at = index_of(records, logkeys.STATE)
        again = {**records[at], "metadata": dict(records[at]["metadata"])}
        records.insert(at, again)

    run.edit_log(change)


@breaks("audit.1")
def an_evaluation_without_a_state(run):
    run.edit(keys.EVAL_ACCURACY, lambda record: record["metadata"].pop("state_sha256"), at=1)


@breaks("audit.1")
def a_state_that_is_no_sum(run):
    run.edit(keys.EVAL_ACCURACY, lambda record: record["metadata"].update(state_sha256="0" * 63))


@breaks_result("audit.1")
def states_that_one_run_of_a_result_does_not_log(folder):
    Evidence(folder / "run_3").forget_states()


@breaks("audit.2")
def a_state_that_training_left_as_it_was(run):
    initial = next(record["value"] for record in run.records() if record["key"] == logkeys.STATE)
    run.edit(keys.EVAL_ACCURACY, lambda record: record["metadata"].update(state_sha256=initial), at=1)


@breaks_result("audit.2")
def two_seeds_that_lead_to_one_state(folder):
    first = [r for r in Evidence(folder / "run_1").records() if r["key"] == keys.EVAL_ACCURACY]
    state = first[-1]["metadata"]["state_sha256"]
    Evidence(folder / "run_3").edit(
        keys.EVAL_ACCURACY, lambda record: record["metadata"].update(state_sha256=state), at=-1
    )
