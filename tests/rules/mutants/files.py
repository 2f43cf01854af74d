"""Mutants of the chapter on packaging."""

from __future__ import annotations

import json
import os
import shutil

from mlperf_logging.mllog import constants as keys

from suite.config import logkeys
from suite.record import evidence
from tests.rules.mutants.registry import breaks, breaks_result, sum_of


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


def configured(run, line):
    """A further line in config.yaml, of which the log knows."""
    path = run.folder / evidence.CONFIG
    path.write_text(path.read_text() + line + "\n")
    run.edit(logkeys.CONFIG, lambda record: record.update(value=sum_of(path)))


@breaks("package.3")
def config_with_a_merge_key(run):
    configured(run, "more: {<<: {seed: 1}}")


@breaks("package.3")
def config_with_an_octal_number(run):
    configured(run, "more: 010")


@breaks("package.3")
def config_with_minutes_and_seconds(run):
    configured(run, "more: 1:30")


@breaks("package.3")
def config_with_another_truth(run):
    configured(run, "more: yes")


@breaks("package.3")
def predictions_with_text(run):
    path = run.folder / evidence.PREDICTIONS
    path.write_text(path.read_text() + "oops\n")
    run.edit(keys.EVAL_ACCURACY, lambda r: r["metadata"].update(predictions_sha256=sum_of(path)), at=-1)


@breaks("package.3")
def manifest_that_leaves_the_folder(run):
    path = run.folder / evidence.MANIFEST
    path.write_text(path.read_text().replace('"power.csv"', '"../../etc/passwd"'))


def manifest(run, change):
    path = run.folder / evidence.MANIFEST
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


@breaks("package.3")
def manifest_of_another_version(run):
    manifest(run, lambda values: values.update(version=2))


@breaks("package.3")
def manifest_that_says_more_of_a_file(run):
    manifest(run, lambda values: values["files"][evidence.LOG].update(mode="0644"))


@breaks("package.3")
def manifest_of_a_size_as_text(run):
    manifest(run, lambda values: values["files"][evidence.LOG].update(size="large"))


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
