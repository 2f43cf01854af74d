"""Mutants of the chapters on runs and scoring, of a run and of a result, and on a result's convergence."""

from __future__ import annotations

import shutil

from mlperf_logging.mllog import constants as keys

from suite.config import logkeys
from tests.rules.editor import Evidence
from tests.rules.evidence_maker import write_result
from tests.rules.mutants.benchmark import hyperparameters, named, open_division
from tests.rules.mutants.outcome import interrupted
from tests.rules.mutants.registry import breaks, breaks_result
from tests.rules.mutants.systems import trained_in
from tests.rules.subject import APART_MS, BENCHMARK


@breaks("runs.1")
def another_framework(run):
    run.edit(logkeys.CONFIG, lambda record: record["metadata"].update(framework="tensorflow"))


@breaks("runs.1")
def another_configuration(run):
    run.edit(logkeys.CONFIG, lambda record: record.update(value="0" * 64))


@breaks("runs.1")
def a_run_without_a_name(run):
    run.edit(logkeys.CONFIG, lambda record: record["metadata"].pop("run_id"))
    run.edit_config(lambda values: values.pop("run_id"))


@breaks("runs.2")
def seed_as_text(run):
    run.edit(keys.SEED, lambda record: record.update(value="100"))


@breaks("runs.2")
def a_seed_beyond_all(run):
    reseeded(run, 2**31)


@breaks("runs.2")
def another_seed(run):
    run.edit(keys.SEED, lambda record: record.update(value=5))


def reseeded(run, seed):
    """Let log and configuration tell another seed."""

    def change(values):
        values["seed"] = values["seeds"][values["run_index"] - 1] = seed

    run.edit(keys.SEED, lambda record: record.update(value=seed))
    run.edit_config(change)


def renamed(run, **names):
    """Let log and configuration name a run alike, but otherwise."""
    run.edit(logkeys.CONFIG, lambda record: record["metadata"].update(names))
    run.edit_config(lambda values: values.update(names))


@breaks("runs.10")
def a_seed_of_no_list(run):
    run.edit(keys.SEED, lambda record: record.update(value=5))
    run.edit_config(lambda values: values.update(seed=5))


@breaks("runs.10")
def no_list_of_seeds(run):
    run.edit_config(lambda values: values.pop("seeds"))


@breaks("runs.10")
def a_seed_for_no_run(run):
    run.edit_config(lambda values: values["seeds"].append(7))


@breaks("runs.10")
def a_run_of_another_result(run):
    renamed(run, run_id=f"{7:032x}-1")


@breaks("runs.10")
def a_run_of_another_place(run):
    renamed(run, run_id=f"{100:032x}-2")


@breaks("runs.10")
def a_result_named_by_hand(run):
    renamed(run, run_id="best-1", result_id="best")


@breaks_result("runs.10")
def three_seeds_for_five_runs(folder):
    for index in range(1, 6):
        Evidence(folder / f"run_{index}").edit_config(lambda values: values.update(seeds=values["seeds"][:3]))


@breaks_result("runs.10")
def one_run_id_for_two(folder):
    renamed(Evidence(folder / "run_5"), run_id=f"{100:032x}-1")


@breaks_result("runs.10")
def seeds_of_two_runs_exchanged(folder):
    for index, seed in ((2, 104), (5, 101)):
        run = Evidence(folder / f"run_{index}")
        run.edit(keys.SEED, lambda record, seed=seed: record.update(value=seed))
        run.edit_config(lambda values, seed=seed: values.update(seed=seed))


@breaks("runs.3")
def a_single_run_of_a_place_that_was_not_planned(run):
    renamed(run, run_index=7, run_id=f"{100:032x}-7")


@breaks_result("runs.3")
def a_run_left_out(folder):
    shutil.rmtree(folder / "run_5")


@breaks_result("runs.3")
def a_run_renamed(folder):
    (folder / "run_5").rename(folder / "run_6")


@breaks_result("runs.3")
def another_run_than_planned(folder):
    run = Evidence((folder / "run_5").rename(folder / "run_6"))
    renamed(run, run_index=6, run_id=f"{100:032x}-6")


@breaks_result("runs.3")
def a_run_left_out_and_the_plan_with_it(folder):
    shutil.rmtree(folder / "run_5")
    for index in range(1, 5):
        run = Evidence(folder / f"run_{index}")
        run.edit(logkeys.CONFIG, lambda record: record["metadata"].update(runs="some"))
        run.edit_config(lambda values: values.update(runs="some"))


@breaks_result("runs.4")
def one_seed_for_two(folder):
    for index in range(1, 6):
        Evidence(folder / f"run_{index}").edit_config(lambda values: values["seeds"].__setitem__(4, 100))
    reseeded(Evidence(folder / "run_5"), 100)


@breaks_result("runs.5")
def another_precision(folder):
    trained_in(Evidence(folder / "run_5"), "fp32")


@breaks_result("system.5")
def a_description_of_one_run_alone(folder):
    Evidence(folder / "run_1").edit_system(lambda values: values["description"].update(cooling="air"))


@breaks_result("system.5")
def another_version(folder):
    Evidence(folder / "run_5").edit_system(lambda values: values["software"].update(numpy="0.1"))


@breaks_result("system.5")
def another_cooling(folder):
    run = Evidence(folder / "run_5")
    run.edit_system(lambda values: values["description"].update(cooling="another one"))


@breaks_result("system.5")
def another_revision(folder):
    Evidence(folder / "run_5").recode(revision="0" * 40)


@breaks_result("system.5")
def another_kernel(folder):
    def change(values):
        values["detected"].update(kernel="0.1")
        values["description"].update(operating_system="Linux, kernel 0.1")

    Evidence(folder / "run_5").edit_system(change)


@breaks_result("timing.6")
def runs_that_begin_at_once(folder):
    for index in range(2, 6):
        Evidence(folder / f"run_{index}").move(-(index - 1) * APART_MS)


@breaks_result("timing.6")
def runs_side_by_side(folder):
    Evidence(folder / "run_3").move(-APART_MS // 2)


@breaks_result("timing.6")
def runs_in_another_order(folder):
    Evidence(folder / "run_2").move(APART_MS)
    Evidence(folder / "run_3").move(-APART_MS)


@breaks_result("timing.6")
def the_last_run_made_first(folder):
    Evidence(folder / "run_5").move(-5 * APART_MS)


@breaks_result("timing.6")
def a_run_made_again_after_the_last_with_the_clock_set_back(folder):
    for index in range(1, 6):
        run = Evidence(folder / f"run_{index}")
        since_boot_ms = (10 if index == 3 else index) * APART_MS
        clock = {"boot": "one boot", "offset_ms": run.records()[0]["time_ms"] - since_boot_ms}
        run.edit(logkeys.CONFIG, lambda record, clock=clock: record["metadata"].update(clock=clock))


@breaks_result("division.6")
def another_submitter_s_run(folder):
    named(Evidence(folder / "run_5"), "somebody else")


@breaks_result("division.6")
def a_run_of_another_division(folder):
    open_division(Evidence(folder / "run_5"))


@breaks_result("runs.7")
def two_runs_that_did_not_converge(folder):
    for index in (2, 4):
        interrupted(Evidence(folder / f"run_{index}"))


@breaks_result("convergence.2")
def faster_than_the_reference(folder):
    for index in range(1, 6):
        shutil.rmtree(folder / f"run_{index}")
    write_result(folder, 5, evaluations=1)


@breaks_result("convergence.4")
def batch_size_without_a_point(folder):
    rate = BENCHMARK.hyperparameters["muon_learning_rate"]
    for index in range(1, 6):
        hyperparameters(Evidence(folder / f"run_{index}"), global_batch_size=200, muon_learning_rate=2 * rate)


def side_by_side(folder):
    """Let the result, and another one of other seeds that was made at the same time, tell one boot of one machine."""
    (folder / "ours").mkdir()
    for index in range(1, 6):
        (folder / f"run_{index}").rename(folder / "ours" / f"run_{index}")
    write_result(folder / "theirs", 5, seed=200)
    for path in folder.glob("*/run_*"):
        Evidence(path).edit(logkeys.CONFIG, lambda record: record["metadata"].update(clock={"boot": "one boot"}))


@breaks_result("timing.9")
def two_results_at_one_time(folder):
    side_by_side(folder)
