"""Mutants of the chapters on packaging, the log and timing."""

from __future__ import annotations

import os
import shutil

from mlperf_logging.mllog import constants as keys

from suite.record import evidence, mllog
from tests.rules.mutants.benchmark import open_division
from tests.rules.mutants.registry import breaks, breaks_result, drop, index_of, sum_of


@breaks("package.1")
def link_beside(run):
    (run.folder / "notes").symlink_to("/etc/hostname")


@breaks("package.1")
def link_in_a_subfolder(run):
    (run.folder / "more").mkdir()
    (run.folder / "more" / "notes").symlink_to("../log.txt")


@breaks("package.1")
def pipe_beside(run):
    os.mkfifo(run.folder / "pipe")


@breaks_result("package.1")
def link_in_a_folder_beside_the_runs(folder):
    (folder / "extra").mkdir()
    (folder / "extra" / "notes").symlink_to("/etc/hostname")


@breaks_result("package.1")
def pipe_beside_the_runs(folder):
    os.mkfifo(folder / "pipe")


@breaks_result("package.5")
def a_run_in_a_folder_of_its_own(folder):
    shutil.copytree(folder / "run_2", folder / "discarded" / "run_9")


@breaks_result("package.5")
def a_log_beside_the_runs(folder):
    shutil.copy(folder / "run_2" / evidence.LOG, folder)


@breaks("package.2")
def no_power(run):
    (run.folder / evidence.POWER).unlink()
    run.seal()


@breaks("package.2")
def no_manifest(run):
    (run.folder / evidence.MANIFEST).unlink()


@breaks("package.2")
def no_predictions(run):
    (run.folder / evidence.PREDICTIONS).unlink()
    run.seal()


@breaks("package.3")
def system_with_nan(run):
    path = run.folder / evidence.SYSTEM
    path.write_text(path.read_text().replace('"cpu_bf16": true', '"cpu_bf16": NaN'))
    run.seal()


@breaks("package.3")
def config_with_an_alias(run):
    path = run.folder / evidence.CONFIG
    path.write_text(path.read_text() + "more: &bomb [a]\nagain: [*bomb, *bomb]\n")
    run.edit_log(lambda records: None)


@breaks("package.3")
def predictions_with_text(run):
    path = run.folder / evidence.PREDICTIONS
    path.write_text(path.read_text() + "oops\n")
    run.edit(keys.EVAL_ACCURACY, lambda r: r["metadata"].update(predictions_sha256=sum_of(path)), at=-1)


@breaks("package.3")
def manifest_that_leaves_the_folder(run):
    path = run.folder / evidence.MANIFEST
    path.write_text(path.read_text().replace('"power.csv"', '"../../etc/passwd"'))


@breaks("package.3")
def power_that_runs_backwards(run):
    path = run.folder / evidence.POWER
    lines = path.read_text().splitlines()
    lines[3], lines[4] = lines[4], lines[3]
    path.write_text("\n".join(lines) + "\n")
    run.seal()


@breaks("package.4")
def config_changed_after_sealing(run):
    with (run.folder / evidence.CONFIG).open("a") as file:
        file.write("# harmless\n")


@breaks("package.4")
def power_not_sealed(run):
    run.seal(files=[name for name in evidence.SEALED if name != evidence.POWER])


@breaks("package.5")
def another_file(run):
    (run.folder / "README").write_text("hello")


@breaks("log.1")
def a_line_of_noise(run):
    run.edit_log(lambda records: records.insert(20, "starting epoch 3"))


@breaks("log.1")
def a_key_twice_in_a_record(run):
    run.edit_log(lambda records: records.insert(20, mllog.TOKEN + '{"key": "a", "key": "b"}'))


@breaks("log.1")
def a_quality_that_is_no_number(run):
    run.edit(mllog.TRACKED, lambda record: record.update(value=float("nan")))


@breaks("log.2")
def a_line_not_chained(run):
    path = run.folder / evidence.LOG
    path.write_text(path.read_text().replace('"throughput": ', '"throughput": 9', 1))
    run.seal()


@breaks("log.2")
def a_log_that_begins_later(run):
    path = run.folder / evidence.LOG
    records = run.records()
    records[0]["metadata"]["prev"] = "0" * 64
    first = mllog.TOKEN + mllog.json.dumps(records[0])
    prev, lines = mllog.line_hash(first.encode()), [first]
    for record in records[1:]:
        record["metadata"]["prev"] = prev
        lines.append(mllog.TOKEN + mllog.json.dumps(record))
        prev = mllog.line_hash(lines[-1].encode())
    path.write_text("\n".join(lines) + "\n")
    run.seal()


@breaks("log.3")
def no_eval_start(run):
    run.edit_log(drop(keys.EVAL_START))


@breaks("log.3")
def tracked_stats_that_say_nothing(run):
    run.edit(mllog.TRACKED, lambda record: record.update(value={}))


@breaks("log.3")
def tracked_stats_without_a_loss(run):
    run.edit(mllog.TRACKED, lambda record: record["value"].pop("loss"))


@breaks("log.3")
def tracked_stats_after_run_stop(run):
    def change(records):
        last = next(record for record in reversed(records) if record["key"] == mllog.TRACKED)
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
        del records[index_of(records, mllog.TRACKED) : index_of(records, keys.EVAL_START) - 1]

    run.edit_log(change)


@breaks("log.5")
def trained_before_the_run(run):
    def change(records):
        at = index_of(records, mllog.TRACKED)
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


@breaks("timing.1")
def clock_backwards(run):
    run.edit(mllog.TRACKED, lambda record: record.update(time_ms=record["time_ms"] - 20_000))


@breaks("timing.2")
def long_initialisation(run):
    def change(records):
        for record in records[:2]:
            record["time_ms"] -= 31 * 60 * 1000

    run.edit_log(change)


@breaks("timing.2")
def long_pause_before_the_run(run):
    def change(records):
        for record in records[: index_of(records, keys.RUN_START)]:
            record["time_ms"] -= 31 * 60 * 1000

    run.edit_log(change)


@breaks("timing.2")
def long_initialisation_in_the_open_division(run):
    open_division(run)

    def change(records):
        for record in records[:2]:
            record["time_ms"] -= 241 * 60 * 1000

    run.edit_log(change)


@breaks("log.6")
def cache_not_cleared(run):
    run.edit(keys.CACHE_CLEAR, lambda record: record.update(value=False))
