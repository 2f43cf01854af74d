"""Mutants of rule runs.8: runs that are near-copies of others."""

from __future__ import annotations

import shutil

from mlperf_logging.mllog import constants as keys

from suite.config import logkeys
from suite.record import evidence, mllog
from tests.rules.editor import Evidence
from tests.rules.evidence_maker import write_run
from tests.rules.mutants.registry import breaks_result, sum_of


def copied(folder, change):
    """Let run_5 be run_1 with the names, the seed and the time stamps of run_5, and `change(its records)`.

    The sums of its states, which nobody can hold to anything but a training, are invented.
    """
    shutil.copy(folder / "run_1" / evidence.PREDICTIONS, folder / "run_5")
    own, copy = Evidence(folder / "run_5"), Evidence(folder / "run_1").records()
    names = {record["key"]: record for record in own.records()}
    for record in copy:
        record["time_ms"] += 3_600_000
        if record["key"] in (logkeys.CONFIG, keys.SEED, logkeys.ENERGY, logkeys.COST):
            record["value"], record["metadata"] = names[record["key"]]["value"], names[record["key"]]["metadata"]
        if record["key"] == logkeys.STATE:
            record["value"] = sum_of(own.folder / evidence.CONFIG)
        elif "state_sha256" in record["metadata"]:
            invented = f"{record['metadata']['samples_count']} of another"
            record["metadata"]["state_sha256"] = mllog.line_hash(invented.encode())
    change(copy)
    own.write(copy)
    power = (folder / "run_1" / evidence.POWER).read_text().splitlines()
    rows = [f"{int(row.split(',')[0]) + 3_600_000},{row.split(',', 1)[1]}" for row in power[1:]]
    (own.folder / evidence.POWER).write_text("\n".join([power[0], *rows]) + "\n")
    own.seal()


@breaks_result("runs.8")
def a_copy_with_other_time_stamps(folder):
    copied(folder, lambda records: None)


def tracked(records):
    return [record["value"] for record in records if record["key"] == logkeys.TRACKED]


@breaks_result("runs.8")
def a_copy_of_the_times_alone(folder):
    def change(records):
        for value in tracked(records):
            value.update(loss=2 * value["loss"], throughput=2 * value["throughput"])

    copied(folder, change)


@breaks_result("runs.8")
def a_copy_of_the_times_moved_a_little(folder):
    def change(records):
        for value in tracked(records):
            value.update(loss=2 * value["loss"], throughput=2 * value["throughput"])
        for record in (r for r in records if r["key"] in (keys.EVAL_START, logkeys.TRACKED)):
            record["time_ms"] += 2

    copied(folder, change)


def copied_losses(folder, factor):
    """Let run_5 have the losses of run_1, each times `factor(its place)`."""
    run, losses = Evidence(folder / "run_5"), [v["loss"] for v in tracked(Evidence(folder / "run_1").records())]

    def change(records):
        for at, value in enumerate(tracked(records)):
            value.update(loss=losses[at] * factor(at))

    run.edit_log(change)


@breaks_result("runs.8")
def a_copy_of_the_losses_alone(folder):
    copied_losses(folder, lambda at: 1 + 1e-5 * at)


@breaks_result("runs.8")
def a_copy_of_all_losses_but_one(folder):
    copied_losses(folder, lambda at: 2 if at == 0 else 1)


@breaks_result("runs.8")
def a_copy_of_the_qualities_alone(folder):
    """Seven evaluations, for a few qualities may agree by chance; times, losses and throughputs are drawn anew."""
    for index in (1, 5):
        shutil.rmtree(folder / f"run_{index}")
        write_run(folder / f"run_{index}", index, runs=5, evaluations=7)
    run = Evidence(folder / "run_5")
    qualities = [r for r in Evidence(folder / "run_1").records() if r["key"] == keys.EVAL_ACCURACY]

    def change(records):
        for at, record in enumerate([r for r in records if r["key"] == keys.EVAL_ACCURACY][:-1]):
            record["value"] = qualities[at]["value"]
            record["metadata"]["metrics"] = qualities[at]["metadata"]["metrics"]

    run.edit_log(change)
