"""Mutants of the chapters on quality, convergence of one run, power and cost."""

from __future__ import annotations

from mlperf_logging.mllog import constants as keys

from suite.config import logkeys
from suite.measure.samples import HEADER_OF_NODES
from suite.record import evidence
from tests.rules.mutants.benchmark import hyperparameters, open_division
from tests.rules.mutants.registry import breaks, index_of, rewrite, sum_of
from tests.rules.subject import WITH_H200, right_predictions


@breaks("quality.1")
def success_below_the_target(run):
    run.edit_predictions([0] * len(right_predictions()))


@breaks("quality.1")
def aborted_at_the_target(run):
    run.edit(keys.RUN_STOP, lambda record: record["metadata"].update(status="aborted", reason="interrupt"))


@breaks("quality.1")
def reason_without_its_status(run):
    run.edit(keys.RUN_STOP, lambda record: record["metadata"].update(reason="interrupt"))


@breaks("quality.2")
def target_met_before(run):
    def change(record):
        record.update(value=0.99)
        record["metadata"].update(metrics={"accuracy": 0.99})

    run.edit(keys.EVAL_ACCURACY, change)


@breaks("quality.2")
def target_met_at_the_evaluation_before(run):
    def change(record):
        record.update(value=0.99)
        record["metadata"].update(metrics={"accuracy": 0.99})

    run.edit(keys.EVAL_ACCURACY, change, at=-2)


@breaks("quality.1")
def trained_on_after_the_target(run):
    for key in (keys.BLOCK_STOP, keys.RUN_STOP):
        run.edit(key, lambda record: record["metadata"].update(samples_count=6100), at=-1)


@breaks("quality.6")
def a_quality_before_the_last_that_is_not_its_metric(run):
    run.edit(keys.EVAL_ACCURACY, lambda record: record.update(value=0.1))


@breaks("quality.3")
def evaluated_too_early(run):
    def change(records):
        for record in records[index_of(records, keys.BLOCK_START) + 1 : index_of(records, keys.BLOCK_STOP)]:
            record["metadata"]["samples_count"] = min(record["metadata"]["samples_count"], 3900)

    run.edit_log(change)


@breaks("quality.3")
def a_batch_as_large_as_the_evaluations_left_out(run):
    open_division(run)
    hyperparameters(run, global_batch_size=1_000_000)

    def change(records):
        first = index_of(records, keys.BLOCK_START)
        second = first + 1 + index_of(records[first + 1 :], keys.BLOCK_START)
        del records[first + 5 : second + 1]

    run.edit_log(change)


@breaks("quality.4")
def budget_ended_early(run):
    run.edit_predictions([0] * len(right_predictions()))
    run.edit(keys.RUN_STOP, lambda record: record["metadata"].update(status="aborted", reason="budget"))


@breaks("quality.5")
def other_predictions(run):
    run.edit(keys.EVAL_ACCURACY, lambda record: record["metadata"].update(predictions_sha256="0" * 64), at=-1)


@breaks("quality.6")
def better_than_predicted(run):
    wrong = [*right_predictions()]
    wrong[0] = (wrong[0] + 1) % 10
    run.edit_predictions(wrong)
    run.edit(keys.EVAL_ACCURACY, lambda record: record.update(value=1.0), at=-1)


@breaks("quality.6")
def predictions_missing(run):
    path = run.folder / evidence.PREDICTIONS
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    run.edit(keys.EVAL_ACCURACY, lambda r: r["metadata"].update(predictions_sha256=sum_of(path)), at=-1)


@breaks("quality.7")
def a_run_of_no_length(run):
    def change(records):
        start = index_of(records, keys.RUN_START)
        for record in records[start:]:
            record["time_ms"] = records[start]["time_ms"]
            if record["key"] == logkeys.TRACKED:
                record["value"]["throughput"] = 1e6

    run.edit_log(change)
    path = run.folder / evidence.POWER
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    run.measure()


@breaks("quality.7")
def a_run_of_no_length_of_another_model(run):
    open_division(run)
    a_run_of_no_length(run)


@breaks("quality.7")
def faster_than_its_processors(run):
    run.squeeze(5)


@breaks("quality.7")
def faster_than_its_accelerator(run):
    rewrite(run, hw="h200", machine=WITH_H200)
    run.squeeze(1000)


@breaks("convergence.1")
def interrupted(run):
    run.edit_predictions([0] * len(right_predictions()))
    run.edit(keys.RUN_STOP, lambda record: record["metadata"].update(status="aborted", reason="interrupt"))


@breaks("measurement.1")
def less_energy(run):
    run.edit(logkeys.ENERGY, lambda record: record.update(value=record["value"] / 2))


@breaks("measurement.1")
def estimate_not_labelled(run):
    run.edit(logkeys.ENERGY, lambda record: record["metadata"].update(source="nvml"))


@breaks("measurement.1")
def an_energy_of_more_of_the_time(run):
    run.edit(logkeys.ENERGY, lambda record: record["metadata"].update(coverage=1.1))


@breaks("measurement.1")
def an_energy_that_was_sampled_more_often(run):
    run.edit(logkeys.ENERGY, lambda record: record["metadata"].update(interval_s=0.5))


@breaks("measurement.1")
def the_energy_of_one_of_two_nodes(run):
    path = run.folder / evidence.POWER
    _, *rows = path.read_text().splitlines()
    path.write_text("\n".join([HEADER_OF_NODES, *(f"{row},{node}" for row in rows for node in (0, 1))]) + "\n")
    run.seal()


@breaks("measurement.1")
def nought_joules(run):
    run.edit(logkeys.ENERGY, lambda record: record.update(value=0))


@breaks("measurement.2")
def half_measured(run):
    rewrite(run, sampled=0.5)


@breaks("measurement.6")
def sampled_seldom(run):
    rewrite(run, sample_ms=3000)


@breaks("measurement.7")
def no_estimated_power_at_all(run):
    run.power(utilisation=0.0)


@breaks("measurement.7")
def energy_of_accelerators_that_are_not_there(run):
    run.power(accelerator_j=100.0)


@breaks("measurement.7")
def a_few_millijoules_of_accelerators_that_are_not_there(run):
    run.power(accelerator_j=0.0003)


@breaks("measurement.7")
def a_gigawatt(run):
    run.power(cpu_j=1e9)


@breaks("measurement.7")
def memory_that_draws_more_than_a_house(run):
    run.power(cpu_j=100.0, dram_j=20_000.0)


@breaks("measurement.7")
def a_processor_that_draws_next_to_nothing(run):
    run.power(cpu_j=0.0003)


@breaks("measurement.7")
def a_counter_that_stands_still(run):
    run.power(cpu_j=0.0)


@breaks("measurement.7")
def an_accelerator_far_over_its_ceiling(run):
    rewrite(run, hw="h200", machine=WITH_H200)
    run.power(accelerator_j=2000.0)


@breaks("measurement.3")
def cheaper(run):
    run.edit(logkeys.COST, lambda record: record.update(value=record["value"] / 2))


@breaks("measurement.3")
def another_provider(run):
    run.edit(logkeys.COST, lambda record: record["metadata"].update(provider="a friend"))


def priced(run, price_per_hour, **price):
    """Another price in configuration and log; what is `price` of where it comes from, where it is not the suite's."""

    def change(record):
        record["value"] = price_per_hour * 30.0 / 3600
        record["metadata"].update(price_per_hour=price_per_hour, **price)

    run.edit_config(lambda values: values["system"].update(price_per_hour=price_per_hour))
    run.edit_config(lambda values: values["system"]["price"].update(price))
    run.edit(logkeys.COST, change)


@breaks("measurement.3")
def paid_for_running(run):
    priced(run, -5.0)


@breaks("measurement.3")
def a_price_of_no_source(run):
    priced(run, 5.0)
    run.edit_config(lambda values: values["system"].update(price=None))


@breaks("measurement.3")
def a_price_of_an_empty_source(run):
    priced(run, 5.0, source="")


@breaks("measurement.4")
def own_price(run):
    priced(run, 1.0)


@breaks("measurement.1")
def more_is_covered(run):
    run.edit(logkeys.ENERGY, lambda record: record["metadata"].update(covers=["accelerator", "cpu"]))


@breaks("measurement.4")
def own_currency(run):
    price = run.records()[-1]["metadata"]["price_per_hour"]
    run.edit_config(lambda values: values["system"]["price"].update(currency="XAU"))
    run.edit(logkeys.COST, lambda record: record["metadata"].update(currency="XAU", price_per_hour=price))


@breaks("measurement.5")
def not_looked_at(run):
    run.edit_log(lambda records: records.pop(index_of(records, logkeys.ENVIRONMENT)))


@breaks("measurement.5")
def not_looked_at_while_it_ran(run):
    during = lambda record: record["metadata"].get("when") == "during"  # noqa: E731
    run.edit_log(lambda records: records.remove(next(filter(during, records))))


@breaks("measurement.5")
def noisy_by_its_samples(run):
    path = run.folder / evidence.POWER
    path.write_text(path.read_text().replace("0.0000,0.0000", "0.0000,0.5000"))
    run.seal()


@breaks("measurement.5")
def noisy(run):
    run.edit(logkeys.ENVIRONMENT, lambda record: record.update(value="noisy"))


@breaks("measurement.5")
def called_quiet_beside_its_reasons(run):
    run.edit(logkeys.ENVIRONMENT, lambda record: record["metadata"].update(reasons=["a process on accelerator 0"]))


@breaks("measurement.5")
def called_quiet_beside_its_figures(run):
    run.edit(logkeys.ENVIRONMENT, lambda record: record["metadata"].update(others=0.5, steal=None), at=1)
