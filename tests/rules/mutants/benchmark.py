"""Mutants of the chapters on divisions, data and hyperparameters."""

from __future__ import annotations

from mlperf_logging.mllog import constants as keys

from suite.config import logkeys
from tests.rules.mutants.registry import breaks, drop
from tests.rules.subject import BENCHMARK, EVERY

FIRST, BUDGET = BENCHMARK.evaluation.first, BENCHMARK.budget_samples


@breaks("division.1")
def unknown_scale(run):
    run.edit(keys.SUBMISSION_BENCHMARK, lambda record: record.update(value="image_classification/huge"))
    run.edit(logkeys.CONFIG, lambda record: record["metadata"].update(scale="huge"))
    run.edit_config(lambda values: values.update(scale="huge"))


@breaks("division.2")
def lower_target_in_the_configuration(run):
    run.edit_config(lambda values: values["benchmark"].update(target=0.5))


@breaks("division.2")
def own_cadence_in_the_configuration(run):
    run.edit_config(lambda values: values["benchmark"]["evaluation"].update(every=7))


@breaks("division.2")
def other_data_in_the_configuration(run):
    run.edit_config(lambda values: values["benchmark"]["dataset"]["arrays"].update(train_images="0" * 64))


def declared(run, key, name, value):
    """Let log, configuration and system description declare the same."""
    run.edit(key, lambda record: record.update(value=value))
    run.edit_config(lambda values: values.update({name: value}))
    run.edit_system(lambda values: values["description"].update({name: value}))


def open_division(run):
    declared(run, keys.SUBMISSION_DIVISION, "division", "open")


def evaluated(run, first, every, budget_samples, logged=True):
    """Let configuration and log tell another cadence; the evaluations stay where they are."""
    own = {"evaluation": {"first": first, "every": every}, "budget_samples": budget_samples}
    run.edit_config(lambda values: values["benchmark"].update(own))
    told = {"first": first, "every": every, "budget_samples": budget_samples}
    if logged:
        run.edit(logkeys.CONFIG, lambda record: record["metadata"].update(cadence=told))


@breaks("division.2")
def own_cadence_in_the_closed_division(run):
    evaluated(run, FIRST, 2 * EVERY, BUDGET)


@breaks("division.2")
def another_cadence_in_the_log_of_the_open_division(run):
    open_division(run)
    run.edit(logkeys.CONFIG, lambda record: record["metadata"]["cadence"].update(every=EVERY + 1))


@breaks("quality.3")
def an_evaluation_left_out_of_the_cadence_of_its_own(run):
    open_division(run)
    evaluated(run, FIRST - EVERY, EVERY, BUDGET)


@breaks("quality.3")
def an_evaluation_more_at_the_end_of_the_budget(run):
    open_division(run)
    evaluated(run, FIRST, EVERY, FIRST + EVERY)

    def change(records):
        for told in (record["metadata"] for record in records):
            if keys.SAMPLES_COUNT in told:
                told[keys.SAMPLES_COUNT] = min(told[keys.SAMPLES_COUNT], FIRST + EVERY)

    run.edit_log(change)


@breaks("division.7")
def a_budget_of_its_own(run):
    open_division(run)
    evaluated(run, FIRST, EVERY, FIRST + 2 * EVERY)


@breaks("division.7")
def hyperparameters_of_its_own(run):
    open_division(run)
    hyperparameters(run, muon_momentum=0.7)


@breaks("division.9")
def a_cadence_that_is_none(run):
    open_division(run)
    evaluated(run, FIRST, 0, BUDGET, logged=False)


@breaks("division.9")
def a_budget_as_text(run):
    open_division(run)
    evaluated(run, FIRST, EVERY, "all", logged=False)


@breaks("division.2")
def another_metric_in_the_log(run):
    run.edit(logkeys.CONFIG, lambda record: record["metadata"].update(metric="top5_accuracy"))


@breaks("division.2")
def another_version_of_the_metric_in_the_log(run):
    run.edit(logkeys.CONFIG, lambda record: record["metadata"].update(metric_signature="mine"))


@breaks("division.3")
def a_division_of_its_own(run):
    declared(run, keys.SUBMISSION_DIVISION, "division", "half open")


@breaks("division.3")
def a_submitter_that_is_a_number(run):
    run.edit(keys.SUBMISSION_ORG, lambda record: record.update(value=5))


@breaks("division.3")
def another_submitter(run):
    run.edit_system(lambda values: values["description"].update(submitter="somebody else"))


def named(run, submitter):
    declared(run, keys.SUBMISSION_ORG, "submitter", submitter)


@breaks("division.3")
def a_submitter_with_a_letter_that_nobody_sees(run):
    named(run, "example\u200b-org")


@breaks("division.3")
def a_submitter_with_a_letter_of_another_script(run):
    named(run, "ex\u0430mple-org")


@breaks("division.3")
def another_submitter_in_the_configuration(run):
    run.edit_config(lambda values: values.update(submitter="somebody else"))


@breaks("division.3")
def no_submitter_in_the_configuration(run):
    run.edit_config(lambda values: values.pop("submitter"))


@breaks("division.3")
def another_status_in_the_configuration(run):
    run.edit_config(lambda values: values.update(status="cloud"))


@breaks("data.1")
def other_data(run):
    run.edit(logkeys.DATASET, lambda record: record["metadata"]["arrays"].update(train_images="0" * 64))


@breaks("data.1")
def data_of_another_name(run):
    run.edit(logkeys.DATASET, lambda record: record.update(value="digits-2"))


@breaks("data.1")
def data_not_named(run):
    run.edit(logkeys.DATASET, lambda record: record["metadata"].update(arrays=None))


@breaks("data.2")
def fewer_evaluation_samples(run):
    run.edit(keys.EVAL_SAMPLES, lambda record: record.update(value=10))


def hyperparameters(run, **changed):
    """Change hyperparameters in log and configuration alike."""
    run.edit_config(lambda values: values["benchmark"]["hyperparameters"].update(changed))
    for name, value in changed.items():
        run.edit(name, lambda record, value=value: record.update(value=value))


@breaks("hyperparameters.1")
def own_momentum(run):
    hyperparameters(run, muon_momentum=0.7)


@breaks("hyperparameters.1")
def another_batch_size_in_the_configuration(run):
    run.edit_config(lambda values: values["benchmark"]["hyperparameters"].update(global_batch_size=200))


@breaks("hyperparameters.1")
def hyperparameter_not_logged(run):
    run.edit_log(drop(keys.GLOBAL_BATCH_SIZE))


@breaks("hyperparameters.1")
def another_batch_size_in_the_log_of_the_open_division(run):
    open_division(run)
    run.edit(keys.GLOBAL_BATCH_SIZE, lambda record: record.update(value=200))


@breaks("hyperparameters.2")
def batch_size_out_of_range(run):
    rate = BENCHMARK.hyperparameters["muon_learning_rate"]
    hyperparameters(run, global_batch_size=500, muon_learning_rate=5 * rate)


@breaks("hyperparameters.2")
def batch_size_between_two_multiples(run):
    rate = BENCHMARK.hyperparameters["muon_learning_rate"]
    hyperparameters(run, global_batch_size=125, muon_learning_rate=1.25 * rate)


@breaks("hyperparameters.2")
def batch_size_as_text(run):
    hyperparameters(run, global_batch_size="100")


@breaks("hyperparameters.2")
def part_of_a_sample(run):
    rate = BENCHMARK.hyperparameters["muon_learning_rate"]
    hyperparameters(run, global_batch_size=100.5, muon_learning_rate=1.005 * rate)


@breaks("hyperparameters.3")
def batch_size_without_its_learning_rate(run):
    hyperparameters(run, global_batch_size=200)


@breaks("hyperparameters.3")
def learning_rate_without_its_batch_size(run):
    hyperparameters(run, muon_learning_rate=1.02 * BENCHMARK.hyperparameters["muon_learning_rate"])


@breaks("hyperparameters.3")
def part_of_an_epoch(run):
    hyperparameters(run, whiten_bias_epochs=2.9)


@breaks("hyperparameters.3")
def learning_rate_as_text(run):
    hyperparameters(run, muon_learning_rate="fast")
