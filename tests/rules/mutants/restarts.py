"""Mutants of the rules on what a restart leaves, and on what else decides a run."""

from __future__ import annotations

from mlperf_logging.mllog import constants as keys

from suite.config import logkeys
from tests.rules.editor import Evidence
from tests.rules.mutants.registry import breaks, breaks_result, index_of
from tests.rules.restarted import restarted, signalled
from tests.rules.subject import BENCHMARK

VOID = 1  # which of the evaluations a restart voided
# Lines of throughput and loss, so that the next is the second block's first.
OF_FIRST_BLOCK = BENCHMARK.evaluation.first // BENCHMARK.evaluation.every


@breaks("log.8")
def another_quality_after_a_restart(run):
    restarted(run, keys.EVAL_STOP)

    def change(record):
        record.update(value=0.123)
        record["metadata"].update(metrics={"accuracy": 0.123})

    run.edit(keys.EVAL_ACCURACY, change, at=VOID)


@breaks("log.8")
def other_predictions_after_a_restart(run):
    restarted(run, keys.EVAL_STOP)
    run.edit(keys.EVAL_ACCURACY, lambda record: record["metadata"].update(predictions_sha256="0" * 64), at=VOID)


@breaks("log.8")
def another_loss_after_a_restart(run):
    restarted(run, keys.EVAL_STOP)
    run.edit(logkeys.TRACKED, lambda record: record["value"].update(loss=0.123), at=OF_FIRST_BLOCK)


@breaks("timing.7")
def a_restart_by_a_clock_that_can_be_set(run):
    restarted(run, keys.EVAL_STOP, clock={"source": "wall", "passed_ms": {"wall": 0}})


@breaks("timing.7")
def a_restart_whose_clocks_differ(run):
    restarted(run, keys.EVAL_STOP, clock={"source": "boot", "passed_ms": {"boot": 3_600_000, "wall": 0}})


@breaks("timing.7")
def a_restart_before_which_the_clock_was_set_on(run):
    restarted(run, keys.EVAL_STOP, clock={"source": "boot", "passed_ms": {"boot": 0, "wall": 3000}})


def told_of_the_clock(run, restart):
    """Let the run begin in one boot, and go on by a clock that tells `restart`."""
    run.boot()
    begun = run.records()[0]["time_ms"] - 1_000_000
    restarted(run, keys.EVAL_STOP, clock={"source": "boot", "boot": "one boot", "offset_ms": begun, **restart})


@breaks("timing.7")
def a_restart_in_another_boot(run):
    told_of_the_clock(run, {"boot": "another", "passed_ms": {}})


@breaks("timing.7")
def a_restart_whose_clock_was_set(run):
    told_of_the_clock(run, {"offset_ms": 0, "passed_ms": {}})


@breaks("timing.7")
def a_restart_that_lost_more_than_the_log_shows(run):
    told_of_the_clock(run, {"passed_ms": {"boot": 3_600_000}})


@breaks("quality.3")
def an_evaluation_left_out_by_a_restart(run):
    """The second block ends unevaluated, and a restart goes on from there."""
    restarted(run, keys.EVAL_START, count=0)
    records = run.records()
    at = index_of(records, logkeys.RESTART)
    samples = records[at - 1]["metadata"]["samples_count"]
    records[at]["metadata"]["samples_count"] = samples
    after = [record for record in records[at + 1 :] if record["metadata"].get("samples_count", samples) >= samples]
    del after[: 1 + index_of(after, keys.BLOCK_STOP)]
    run.write([*records[: at + 1], *after])


@breaks("log.4")
def energy_of_a_run_that_went_on_alone(run):
    """What was measured until a signal is not what the run took."""
    signalled(run)
    for key in (logkeys.ENERGY, logkeys.COST):
        run.edit_log(lambda records, key=key: records.remove([each for each in records if each["key"] == key][-1]))


@breaks("system.7")
def gone_on_elsewhere(run):
    restarted(run, keys.EVAL_STOP, changed=["detected.cpu_model", "environment.variables.OMP_NUM_THREADS"])


@breaks("system.7")
def environment_not_told(run):
    run.edit_system(lambda values: values.pop("environment"))


@breaks("system.7")
def environment_without_variables(run):
    run.edit_system(lambda values: values["environment"].update(variables=None))


@breaks_result("system.7")
def a_run_in_another_environment(folder):
    run = Evidence(folder / "run_3")
    run.edit_system(lambda values: values["environment"]["variables"].update(XLA_FLAGS="--xla_gpu_autotune_level=4"))
