"""Mutants of the chapters on the log and timing."""

from __future__ import annotations

import time

from mlperf_logging.mllog import constants as keys

from suite.config import logkeys
from suite.record import evidence, mllog
from tests.rules.mutants.benchmark import open_division
from tests.rules.mutants.registry import breaks, drop, index_of
from tests.rules.subject import EVERY


@breaks("log.1")
def a_line_of_noise(run):
    run.edit_log(lambda records: records.insert(20, "starting epoch 3"))


@breaks("log.1")
def a_key_twice_in_a_record(run):
    run.edit_log(lambda records: records.insert(20, mllog.TOKEN + '{"key": "a", "key": "b"}'))


@breaks("log.1")
def a_quality_that_is_no_number(run):
    run.edit(logkeys.TRACKED, lambda record: record.update(value=float("nan")))


@breaks("log.1")
def a_line_that_ends_twice(run):
    def change(records):
        records[20] = mllog.TOKEN + mllog.json.dumps(records[20]).replace(', "key"', ',\r "key"')

    run.edit_log(change)


@breaks("log.2")
def a_line_not_chained(run):
    path = run.folder / evidence.LOG
    path.write_text(path.read_text().replace('"throughput": ', '"throughput": 9', 1))
    run.seal()


@breaks("log.2")
def a_log_that_begins_later(run):
    run.write(run.records(), prev="0" * 64)


@breaks("log.3")
def no_eval_start(run):
    run.edit_log(drop(keys.EVAL_START))


@breaks("log.3")
def tracked_stats_that_say_nothing(run):
    run.edit(logkeys.TRACKED, lambda record: record.update(value={}))


@breaks("log.3")
def tracked_stats_without_a_loss(run):
    run.edit(logkeys.TRACKED, lambda record: record["value"].pop("loss"))


@breaks("log.3")
def tracked_stats_after_run_stop(run):
    def change(records):
        last = next(record for record in reversed(records) if record["key"] == logkeys.TRACKED)
        records.append({**last, "time_ms": records[-1]["time_ms"], "metadata": dict(last["metadata"])})

    run.edit_log(change)


@breaks("log.3")
def no_cache_clear(run):
    run.edit_log(drop(keys.CACHE_CLEAR))


@breaks("log.3")
def seed_after_run_start(run):
    def change(records):
        seed = records.pop(index_of(records, keys.SEED))
        at = index_of(records, keys.RUN_START)
        records.insert(at + 1, {**seed, "time_ms": records[at]["time_ms"]})

    run.edit_log(change)


@breaks("log.3")
def batch_size_after_run_stop(run):
    def change(records):
        record = records.pop(index_of(records, keys.GLOBAL_BATCH_SIZE))
        records.append({**record, "time_ms": records[-1]["time_ms"]})

    run.edit_log(change)


@breaks("log.3")
def run_stop_of_a_wrong_type(run):
    run.edit(keys.RUN_STOP, lambda record: record.update(event_type=keys.POINT_IN_TIME))


@breaks("log.4")
def no_train_samples(run):
    run.edit_log(drop(keys.TRAIN_SAMPLES))


@breaks("log.4")
def two_costs(run):
    run.edit_log(lambda records: records.append(dict(records[-1])))


@breaks("log.5")
def block_without_samples(run):
    run.edit(keys.BLOCK_START, lambda record: record["metadata"].pop("samples_count"))


@breaks("log.5")
def samples_that_fall(run):
    run.edit(keys.BLOCK_STOP, lambda record: record["metadata"].update(samples_count=1))


@breaks("log.5")
def a_block_without_tracked_stats(run):
    run.edit_log(lambda records: records.pop(index_of(records, keys.EVAL_START) - 1))


@breaks("log.5")
def samples_counted_seldom(run):
    def change(records):
        last = index_of(records, keys.EVAL_START) - 1
        seconds = (records[last]["time_ms"] - records[index_of(records, keys.BLOCK_START)]["time_ms"]) / 1000
        records[last]["value"]["throughput"] = records[last]["metadata"]["samples_count"] / seconds
        del records[index_of(records, logkeys.TRACKED) : last]

    run.edit_log(change)


@breaks("log.5")
def samples_counted_half_as_often(run):
    def change(records):
        at = index_of(records, logkeys.TRACKED)
        seconds = (records[at + 1]["time_ms"] - records[at - 1]["time_ms"]) / 1000
        records[at + 1]["value"]["throughput"] = 2 * EVERY / seconds
        del records[at]

    run.edit_log(change)


@breaks("log.5")
def trained_before_the_run(run):
    def change(records):
        at = index_of(records, logkeys.TRACKED)
        records[index_of(records, keys.BLOCK_START)]["metadata"]["samples_count"] = 1000
        del records[at]

    run.edit_log(change)


@breaks("log.5")
def a_part_of_a_step(run):
    def change(records):
        for record in records:
            if record["metadata"].get("samples_count"):
                record["metadata"]["samples_count"] += 1

    run.edit_log(change)


def insert(run, behind, key, value=None):
    """Put a line of a key of one's own behind the first one of another key."""

    def change(records):
        at = index_of(records, behind)
        made = {**records[at], "event_type": keys.POINT_IN_TIME, "key": key, "value": value, "metadata": {}}
        records.insert(at + 1, made)

    run.edit_log(change)


@breaks("log.7")
def weights_trained_before(run):
    insert(run, keys.SEED, "pretrained_weights", "imagenet")


@breaks("log.7")
def a_hyperparameter_that_the_reference_lacks(run):
    insert(run, keys.SEED, keys.OPT_LR_WARMUP_EPOCHS, 5)


@breaks("log.7")
def something_said_before_the_head(run):
    insert(run, keys.CACHE_CLEAR, "warmed_up_on", "the training split")


@breaks("timing.1")
def clock_backwards(run):
    run.edit(keys.EVAL_STOP, lambda record: record.update(time_ms=record["time_ms"] - 20_000))


def all_before(run, key, minutes):
    """Move the lines before the first `key` back in time."""

    def change(records):
        for record in records[: index_of(records, key)]:
            record["time_ms"] -= minutes * 60 * 1000

    run.edit_log(change)


@breaks("timing.2")
def long_initialisation(run):
    all_before(run, keys.INIT_STOP, 31)


@breaks("timing.2")
def long_pause_before_the_run(run):
    all_before(run, keys.RUN_START, 31)


@breaks("timing.2")
def long_initialisation_in_the_open_division(run):
    open_division(run)
    all_before(run, keys.INIT_STOP, 241)


@breaks("timing.5")
def a_slower_throughput(run):
    run.edit(logkeys.TRACKED, lambda record: record["value"].update(throughput=record["value"]["throughput"] / 2))


@breaks("timing.5")
def no_throughput_at_all(run):
    run.edit(logkeys.TRACKED, lambda record: record["value"].update(throughput=0))


@breaks("timing.5")
def a_clock_that_starts_later(run):
    """The first block is cut short; energy and cost are those of the shorter run."""

    def change(records):
        first = index_of(records, logkeys.TRACKED)
        for record in records[index_of(records, keys.RUN_START) : first]:
            record["time_ms"] = records[first]["time_ms"]

    run.edit_log(change)
    run.measure()


@breaks("timing.5")
def an_evaluation_that_took_no_time(run):
    """Whatever follows it is moved ahead; energy and cost are those of the shorter run, and power.csv is left."""

    def change(records):
        start = index_of(records, keys.EVAL_START)
        took = records[start + 1]["time_ms"] - records[start]["time_ms"]
        for record in records[start + 1 :]:
            record["time_ms"] -= took

    run.edit_log(change)
    run.measure()


@breaks("timing.5")
def a_throughput_beyond_all_measure(run):
    run.edit(logkeys.TRACKED, lambda record: record["value"].update(throughput=1e308))


@breaks("timing.6")
def made_in_1970(run):
    run.move(1000 - run.records()[0]["time_ms"])


@breaks("timing.6")
def made_in_two_days(run):
    run.move(time.time_ns() // 1_000_000 + 48 * 3_600_000 - run.records()[0]["time_ms"])


@breaks("timing.6")
def made_in_9999(run):
    run.move(253_402_300_000_000 - run.records()[0]["time_ms"])


@breaks("timing.6")
def made_before_the_suite(run):
    run.move(-3 * 24 * 3_600_000)


@breaks("timing.6")
def made_before_its_revision(run):
    run.move(-25 * 3_600_000)


@breaks("log.6")
def cache_not_cleared(run):
    run.edit(keys.CACHE_CLEAR, lambda record: record.update(value=False))
