"""For each rule at least one way to break it and nothing else: `MUTANTS[rule]` edits sound evidence in place."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlperf_logging.mllog import constants as keys

from suite.record import evidence, mllog
from tests.rules.evidence_maker import WITH_H200, Evidence, right_predictions, write_run

MUTANTS: dict[str, list[Callable[[Evidence], object]]] = {}
RESULT_MUTANTS: dict[str, list[Callable[[Path], object]]] = {}


def breaks(rule: str) -> Callable[[Callable[[Evidence], object]], Callable[[Evidence], object]]:
    def register(mutate: Callable[[Evidence], object]) -> Callable[[Evidence], object]:
        MUTANTS.setdefault(rule, []).append(mutate)
        return mutate

    return register


def breaks_result(rule: str) -> Callable[[Callable[[Path], object]], Callable[[Path], object]]:
    def register(mutate: Callable[[Path], object]) -> Callable[[Path], object]:
        RESULT_MUTANTS.setdefault(rule, []).append(mutate)
        return mutate

    return register


def rewrite(run: Evidence, **parameters: Any) -> Evidence:
    """Replace the evidence by that of a run with other parameters."""
    shutil.rmtree(run.folder)
    return write_run(run.folder, **parameters)


def drop(key: str) -> Callable[[list[dict]], None]:
    def change(records: list[dict]) -> None:
        records.remove(next(record for record in records if record["key"] == key))

    return change


def index_of(records: list[dict], key: str) -> int:
    return next(at for at, record in enumerate(records) if record["key"] == key)


# Packaging


@breaks("package.1")
def link_beside(run):
    (run.folder / "notes").symlink_to("/etc/hostname")


@breaks("package.1")
def link_in_a_subfolder(run):
    (run.folder / "more").mkdir()
    (run.folder / "more" / "notes").symlink_to("../log.txt")


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
    run.edit(keys.EVAL_ACCURACY, lambda r: r["metadata"].update(predictions_sha256=_sum(path)), at=-1)


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


# Log and timing


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
    path.write_text(path.read_text().replace('"throughput": 100.0', '"throughput": 900.0', 1))
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


@breaks("timing.1")
def clock_backwards(run):
    run.edit(mllog.TRACKED, lambda record: record.update(time_ms=record["time_ms"] - 20_000))


@breaks("timing.2")
def long_initialisation(run):
    def change(records):
        for record in records[:2]:
            record["time_ms"] -= 31 * 60 * 1000

    run.edit_log(change)


# Divisions, data, hyperparameters


@breaks("division.1")
def unknown_scale(run):
    run.edit(keys.SUBMISSION_BENCHMARK, lambda record: record.update(value="image_classification/huge"))
    run.edit(mllog.CONFIG, lambda record: record["metadata"].update(scale="huge"))
    run.edit_config(lambda values: values.update(scale="huge"))


@breaks("division.2")
def lower_target_in_the_configuration(run):
    run.edit_config(lambda values: values["benchmark"].update(target=0.5))


@breaks("division.2")
def own_cadence_in_the_configuration(run):
    run.edit_config(lambda values: values["benchmark"]["evaluation"].update(every=7))


@breaks("division.3")
def open_division(run):
    run.edit(keys.SUBMISSION_DIVISION, lambda record: record.update(value="open"))
    run.edit_system(lambda values: values["description"].update(division="open"))


@breaks("division.3")
def another_submitter(run):
    run.edit_system(lambda values: values["description"].update(submitter="somebody else"))


@breaks("data.1")
def other_data(run):
    run.edit(mllog.DATASET, lambda record: record["metadata"]["arrays"].update(train_images="0" * 64))


@breaks("data.1")
def data_not_named(run):
    run.edit(mllog.DATASET, lambda record: record["metadata"].update(arrays=None))


@breaks("data.2")
def fewer_evaluation_samples(run):
    run.edit(keys.EVAL_SAMPLES, lambda record: record.update(value=10))


@breaks("hyperparameters.1")
def own_batch_size(run):
    run.edit(keys.GLOBAL_BATCH_SIZE, lambda record: record.update(value=7))


@breaks("hyperparameters.1")
def own_batch_size_in_the_configuration(run):
    run.edit_config(lambda values: values["benchmark"]["hyperparameters"].update(global_batch_size=7))


@breaks("hyperparameters.1")
def hyperparameter_not_logged(run):
    run.edit_log(drop(keys.GLOBAL_BATCH_SIZE))


# Systems


@breaks("system.1")
def framework_not_described(run):
    run.edit_system(lambda values: values["description"].update(framework=" "))


@breaks("system.1")
def description_lacks_a_key(run):
    run.edit_system(lambda values: values["description"].pop("cooling"))


@breaks("system.2")
def another_system_in_the_log(run):
    run.edit(keys.SUBMISSION_PLATFORM, lambda record: record.update(value="h200"))


@breaks("system.2")
def another_system_described(run):
    run.edit_system(lambda values: values["description"].update(system_name="h200"))


@breaks("system.3")
def own_figures(run):
    run.edit_config(lambda values: values["system"].update(title="a faster machine"))


@breaks("system.3")
def unknown_system(run):
    run.edit(keys.SUBMISSION_PLATFORM, lambda record: record.update(value="mine"))
    run.edit(mllog.CONFIG, lambda record: record["metadata"].update(system="mine"))
    run.edit_config(lambda values: values["system"].update(name="mine"))
    run.edit_system(lambda values: values["description"].update(system_name="mine"))


@breaks("system.4")
def another_accelerator(run):
    made = rewrite(run, hw="h200", machine=WITH_H200)
    made.edit_system(lambda values: values["detected"]["accelerators"][0].update(name="NVIDIA A100"))


# Quality and convergence


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
    run.edit(keys.EVAL_ACCURACY, lambda record: record.update(value=0.99))


@breaks("quality.3")
def evaluated_too_early(run):
    def change(records):
        for record in records[index_of(records, keys.BLOCK_START) + 1 : index_of(records, keys.BLOCK_STOP)]:
            record["metadata"]["samples_count"] -= 1

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
    run.edit(keys.EVAL_ACCURACY, lambda r: r["metadata"].update(predictions_sha256=_sum(path)), at=-1)


@breaks("convergence.1")
def interrupted(run):
    run.edit_predictions([0] * len(right_predictions()))
    run.edit(keys.RUN_STOP, lambda record: record["metadata"].update(status="aborted", reason="interrupt"))


# Power and cost


@breaks("measurement.1")
def less_energy(run):
    run.edit(mllog.ENERGY, lambda record: record.update(value=record["value"] / 2))


@breaks("measurement.1")
def estimate_not_labelled(run):
    run.edit(mllog.ENERGY, lambda record: record["metadata"].update(source="nvml"))


@breaks("measurement.1")
def nought_joules(run):
    run.edit(mllog.ENERGY, lambda record: record.update(value=0))


@breaks("measurement.2")
def half_measured(run):
    rewrite(run, sampled=0.5)


@breaks("measurement.3")
def cheaper(run):
    run.edit(mllog.COST, lambda record: record.update(value=record["value"] / 2))


@breaks("measurement.3")
def another_provider(run):
    run.edit(mllog.COST, lambda record: record["metadata"].update(provider="a friend"))


@breaks("measurement.4")
def own_price(run):
    run.edit_config(lambda values: values["system"].update(price_per_hour=1.0))

    def change(record):
        record["metadata"]["price_per_hour"] = 1.0
        record["value"] = 30.0 / 3600

    run.edit(mllog.COST, change)


@breaks("measurement.5")
def noisy(run):
    run.edit(mllog.ENVIRONMENT, lambda record: record.update(value="noisy"))


# Runs and scoring


@breaks("runs.1")
def another_framework(run):
    run.edit(mllog.CONFIG, lambda record: record["metadata"].update(framework="tensorflow"))


@breaks("runs.1")
def another_configuration(run):
    run.edit(mllog.CONFIG, lambda record: record.update(value="0" * 64))


@breaks("runs.2")
def seed_as_text(run):
    run.edit(keys.SEED, lambda record: record.update(value="100"))


@breaks("runs.2")
def another_seed(run):
    run.edit(keys.SEED, lambda record: record.update(value=5))


@breaks_result("runs.3")
def a_run_left_out(folder):
    shutil.rmtree(folder / "run_5")


@breaks_result("runs.3")
def a_run_renamed(folder):
    (folder / "run_5").rename(folder / "run_6")


@breaks_result("runs.4")
def one_seed_for_two(folder):
    run = Evidence(folder / "run_5")
    run.edit(keys.SEED, lambda record: record.update(value=100))
    run.edit_config(lambda values: values.update(seed=100))


@breaks_result("runs.5")
def another_precision(folder):
    Evidence(folder / "run_5").edit_config(lambda values: values.update(precision="fp32"))


def _sum(path: Path) -> str:
    return mllog.line_hash(path.read_bytes())
