"""A run that was cut off goes on; what its folder accepts, and from whom."""

import json
import os
import shutil
import time

import numpy as np
import pytest
from filelock import FileLock

from suite.harness.folder import LOCK
from suite.measure.machine import usable_cpus
from suite.record import clock
from suite.record.environment import STARTED
from tests.command import ENVIRONMENT, eighth, start
from tests.parity_runs import RUN, SLOW, begin, cut_off, keys, lines, refused, rules_broken, wait_for
from tests.rules.editor import Evidence


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    return begin(tmp_path_factory.mktemp("begun"))


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A run that reached its target."""
    folder = tmp_path_factory.mktemp("ended")
    eighth(folder, "run", *RUN, "seed=1", "out=evidence")
    return folder / "evidence"


@pytest.fixture
def cut(begun, tmp_path):
    shutil.copytree(begun / "cut", tmp_path / "cut")
    return tmp_path / "cut"


def killed(folder, *arguments, blocks):
    """Start a run that would stall in its fourth block, and kill it when its log has begun `blocks` blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENVIRONMENT, "PARITY_STALL_AT", "900")
        process = start(folder, "tests.eighth_task", "run", *arguments)
    wait_for(folder / "cut", "block_start", blocks)
    process.kill()
    process.communicate()


@pytest.mark.slow
def test_goes_on_after_kill_9_on_the_same_log_and_clock(tmp_path):
    whole = eighth(tmp_path, "run", *SLOW, "out=whole")
    assert whole.returncode == 0
    folder = tmp_path / "cut"
    killed(tmp_path, *SLOW, "out=cut", blocks=4)
    (folder / "log.txt").open("ab").write(b":::MLLOG {torn")
    before = lines(folder)[:-1]
    time.sleep(1)
    done = eighth(tmp_path, "run", *SLOW, "resume=cut")
    assert done.returncode == 0, done.stderr

    log = lines(folder)
    assert [line.raw for line in log[: len(before)]] == [line.raw for line in before]
    restart = log[len(before)]
    assert (restart.key, restart.value, restart.metadata["torn_bytes"]) == ("suite_restart", 1, 14)
    assert restart.metadata["lost_ms"] >= 1000
    start_ms = next(line.time_ms for line in log if line.key == "run_start")
    stop = next(line for line in log if line.key == "run_stop")
    assert stop.time_ms - start_ms >= 1000 + restart.metadata["lost_ms"]
    assert [keys(folder).count(key) for key in ("run_start", "run_stop", "seed")] == [1, 1, 1]
    assert (folder / "predictions.jsonl").read_bytes() == (tmp_path / "whole/predictions.jsonl").read_bytes()
    assert rules_broken(tmp_path, "cut") == rules_broken(tmp_path, "whole")  # the slow hyperparameter only


@pytest.mark.parametrize(
    "last",
    [
        "init_start",
        "suite_dataset",
        "init_stop",
        "run_start",
        "eval_start",
        "eval_accuracy",
        "run_stop",
        "suite_energy",
    ],
)
def test_goes_on_wherever_the_kill_struck(ended, tmp_path, last):
    shutil.copytree(ended, tmp_path / "cut")
    cut_off(tmp_path / "cut", last)
    done = eighth(tmp_path, "run", *RUN, "seed=1", "resume=cut")
    assert done.returncode == 0, done.stderr
    assert keys(tmp_path / "cut").count("run_stop") == 1
    review = eighth(tmp_path, "review", "cut")
    assert review.returncode == 0, review.stdout
    aborted = last in ("suite_dataset", "init_stop")
    assert ("1 aborted start" in review.stdout) == ("1 aborted start" in done.stdout) == aborted


def test_samples_that_were_damaged_after_the_end_are_one_line(ended, tmp_path):
    shutil.copytree(ended, tmp_path / "cut")
    cut_off(tmp_path / "cut", "run_stop")
    whole = (tmp_path / "cut/power.csv").read_text()
    (tmp_path / "cut/power.csv").write_text(whole + "damaged\n")
    done = eighth(tmp_path, "run", *RUN, "seed=1", "resume=cut")
    line = whole.count("\n") + 1
    told = f"cut/power.csv: line {line}: is not a row of samples; mend that, then go on with resume=cut mlflow=false"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"error: {told}")
    (tmp_path / "cut/power.csv").unlink()
    assert eighth(tmp_path, "run", *RUN, "seed=1", "resume=cut").returncode == 0
    review = eighth(tmp_path, "review", "cut")
    assert review.returncode == 0, review.stdout
    assert "energy not known" in review.stdout


@pytest.mark.slow
def test_goes_on_after_many_kills(tmp_path):
    for blocks in range(1, 5):
        killed(tmp_path, *SLOW, "out=cut" if blocks == 1 else "resume=cut", blocks=blocks)
    assert eighth(tmp_path, "run", *SLOW, "resume=cut").returncode == 0
    log = lines(tmp_path / "cut")
    assert [line.value for line in log if line.key == "suite_restart"] == [1, 2, 3, 4]
    assert {line.metadata["clock"]["source"] for line in log if line.key == "suite_restart"} == {"boot"}


@pytest.mark.parametrize(
    ("clocks", "source", "least_ms"),
    [
        ({}, "boot", 0),
        ({"set_back_s": 3600}, "boot", 0),
        ({"booted": True}, "wall", 0),
        ({"booted": True, "set_back_s": 3600, "written_s": -60}, "file", 60_000),
        ({"booted": True, "set_back_s": 3600, "written_s": 60}, "unknown", 0),
        ({"booted": True, "set_back_s": 3600, "file": "tells nothing, as on a full disk"}, "unknown", 0),
    ],
)
def test_a_clock_set_back_before_a_restart_loses_no_time(cut, tmp_path, monkeypatch, clocks, source, least_ms):
    log = cut / "run_2/log.txt"
    last_ms, written = lines(cut / "run_2")[-1].time_ms, log.stat().st_mtime
    if "written_s" in clocks:
        os.utime(log, (time.time() + clocks["written_s"],) * 2)
    if "booted" in clocks:
        (tmp_path / "boot_id").write_text("another boot")
        monkeypatch.setattr(clock, "BOOT_ID", tmp_path / "boot_id")
    if "file" in clocks:
        monkeypatch.setattr(clock, "_since_written_ms", lambda path: None)
    true_ns, back_ns = time.time_ns, clocks.get("set_back_s", 0) * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: true_ns() - back_ns)
    since_s = time.time() - written
    done = eighth(cut.parent, "run", "resume=cut", "mlflow=false")
    assert done.returncode == 0, done.stderr
    after = lines(cut / "run_2")
    restart = next(line for line in after if line.key == "suite_restart")
    assert restart.metadata["clock"]["source"] == source
    lost_ms = restart.metadata["lost_ms"]
    assert restart.time_ms - last_ms >= lost_ms >= (least_ms if source in ("file", "unknown") else 1000 * since_s - 100)
    assert [line.time_ms for line in after] == sorted(line.time_ms for line in after)
    review = eighth(cut.parent, "review", "cut")
    assert review.returncode == 0, review.stdout
    assert ("timing.7" in review.stdout) == (clocks != {})


def test_a_run_begins_after_the_one_before_though_the_clock_was_set_back(cut):
    shutil.rmtree(cut / "run_2")
    Evidence(cut / "run_1").move(3_600_000)
    eighth(cut.parent, "run", "resume=cut", "mlflow=false")
    assert lines(cut / "run_2")[0].time_ms >= lines(cut / "run_1")[-1].time_ms
    assert rules_broken(cut.parent, "cut") == set()


def test_resume_of_a_finished_run_changes_nothing(ended, tmp_path):
    shutil.copytree(ended, tmp_path / "evidence")
    log = (tmp_path / "evidence/log.txt").read_bytes()
    done = eighth(tmp_path, "run", "resume=evidence")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "evidence/log.txt").read_bytes() == log


def test_resume_refuses_another_seed_and_out_refuses_a_used_folder(ended, tmp_path):
    shutil.copytree(ended, tmp_path / "evidence")
    other = eighth(tmp_path, "run", *RUN, "seed=2", "resume=evidence")
    assert other.returncode == 2
    assert "seed=2 contradicts resume=evidence, which is a run of seed=1" in other.stderr
    again = eighth(tmp_path, "run", *RUN, "seed=1", "out=evidence")
    assert again.returncode == 2
    assert (
        "out=evidence is not empty: choose another out=, or go on with resume=evidence mlflow=false\n" in again.stderr
    )


def test_out_that_is_a_file_or_of_something_else_is_not_gone_on_with(tmp_path):
    (tmp_path / "file").touch()
    assert "out=file cannot be read (Not a directory): choose another out=\n" in refused(tmp_path, *RUN, "out=file")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/notes.txt").touch()
    assert "out=other is not empty: choose another out=\n" in refused(tmp_path, *RUN, "out=other")


@pytest.mark.parametrize(
    "late",
    [
        "hw.price_per_hour=9",
        "target=0.5",
        "hyperparameters.opt_base_learning_rate=7",
        "hw.title=x: y: z",
        "out=elsewhere",
    ],
)
def test_what_would_change_a_run_comes_too_late(cut, late):
    name, value = late.split("=")
    assert f"{late} comes too late: resume=cut" in refused(cut.parent, *RUN, "resume=cut", f"{name}='{value}'")
    assert not (cut / "run_2/manifest.json").exists()


def test_the_same_command_goes_on_with_resume(cut):
    same = ("seed=1", "runs=2", "out=cut", "target=0.97", "hw.price_per_cpu_hour=0.05132")
    done = eighth(cut.parent, "run", *RUN, *same, "resume=cut")
    assert done.returncode == 0, done.stderr
    assert keys(cut / "run_2").count("suite_restart") == 1


def test_one_of_several_runs_is_not_gone_on_with_by_itself(cut):
    said = refused(cut.parent, *RUN, "resume=cut/run_2")
    assert f"resume=cut/run_2 is one of 2 runs: give the folder that holds them, resume={cut}\n" in said
    assert not (cut / "run_2/run_1").exists()


def test_a_round_goes_on_with_its_token(tmp_path):
    done = eighth(tmp_path, "run", *RUN, "token=a round: 1", "submitter=example-org", "runs=2", "out=cut")
    assert done.returncode == 0, done.stderr
    before = [line.value for line in lines(tmp_path / "cut/run_2") if line.key == "seed"]
    shutil.rmtree(tmp_path / "cut/run_2")
    assert "token=another contradicts resume=cut" in refused(tmp_path, *RUN, "token=another", "resume=cut")
    assert eighth(tmp_path, "run", *RUN, "token=a round: 1", "resume=cut").returncode == 0
    assert [line.value for line in lines(tmp_path / "cut/run_2") if line.key == "seed"] == before
    review = eighth(tmp_path, "review", "cut")
    assert review.returncode == 0, review.stdout


def test_a_run_that_goes_on_in_another_environment_says_so(cut, monkeypatch):
    monkeypatch.setitem(STARTED, "OMP_NUM_THREADS", "7")
    done = eighth(cut.parent, "run", "resume=cut", "mlflow=false")
    assert done.returncode == 0, done.stderr
    (restart,) = (line for line in lines(cut / "run_2") if line.key == "suite_restart")
    name = "environment.variables.OMP_NUM_THREADS"
    assert restart.metadata["changed"] == [name, "environment.threads"]
    review = json.loads(eighth(cut.parent, "review", "cut", "--json").stdout)
    (noted,) = (finding for finding in review["findings"] if finding["rule"] == "system.7")
    assert (noted["severity"], name in noted["found"]) == ("note", True)


def test_a_run_that_goes_on_with_other_processors_costs_what_those_cost_that_it_was_begun_with(ended, tmp_path):
    shutil.copytree(ended, tmp_path / "cut")
    Evidence(tmp_path / "cut").edit_system(lambda values: values["detected"].update(logical_cpus=77))
    cut_off(tmp_path / "cut", "eval_start")
    assert eighth(tmp_path, "run", *RUN, "seed=1", "resume=cut").returncode == 0
    assert not {"measurement.1", "measurement.3"} & rules_broken(tmp_path, "cut")


def test_the_plan_of_stored_values_is_shown_without_control_characters(cut):
    path = cut / "run_1/config.yaml"
    path.write_text(path.read_text().replace("title: 2000 points", 'title: "\\e[31m2000 points"  #', 1))
    done = eighth(cut.parent, "run", "resume=cut", "mlflow=false", "dry_run=true")
    assert done.returncode == 0, done.stderr
    assert "\\x1b[31m2000 points" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_job_that_slurm_starts_again_goes_on(cut, monkeypatch):
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    done = eighth(cut.parent, "run", *RUN, "seed=1", "runs=2", "out=cut")
    assert done.returncode == 0, done.stderr
    assert keys(cut / "run_2").count("suite_restart") == 1


def test_runs_after_one_that_was_interrupted_are_made(cut):
    shutil.rmtree(cut / "run_2")
    done = eighth(cut.parent, "run", *RUN, "resume=cut")
    assert done.returncode == 0, done.stderr
    assert keys(cut / "run_2").count("run_stop") == 1


def test_a_run_that_is_yet_to_begin_is_of_no_other_configuration(cut):
    shutil.rmtree(cut / "run_2")
    said = refused(cut.parent, *RUN, "resume=cut", "hw.workers=2")
    assert "error: hw.workers=2 comes too late: a run of resume=cut has yet to begin, and all have one conf" in said


@pytest.mark.parametrize(
    ("part", "name", "now"), [("software", "numpy", np.__version__), ("detected", "logical_cpus", usable_cpus())]
)
def test_the_plan_says_that_what_is_yet_to_begin_will_be_of_other_software_or_another_machine(cut, part, name, now):
    Evidence(cut / "run_1").edit_system(lambda values: values[part].update({name: 0}))
    said = f"system.5: expected {name} 0, as in run_1, found {now}\n"
    plan = ("run", "resume=cut", "mlflow=false", "dry_run=true")
    assert said not in eighth(cut.parent, *plan).stdout
    shutil.rmtree(cut / "run_2")
    assert eighth(cut.parent, *plan).stdout.count("system.5: ") == 1
    assert said in eighth(cut.parent, *plan).stdout
    assert (said in eighth(cut.parent, *plan, "-m", "hydra/launcher=slurm").stdout) == (part == "software")


def test_a_folder_at_work_is_left_alone(cut):
    with FileLock(cut / LOCK):
        assert "another command is at work there" in refused(cut.parent, *RUN, "resume=cut")
    assert eighth(cut.parent, "run", *RUN, "resume=cut").returncode == 0
    assert not (cut / LOCK).exists()


@pytest.mark.parametrize("content", [b"", b"name: x\n", b"- 1\n", b"a: [", b"\xff"])
def test_a_folder_of_something_else_is_no_run(tmp_path, content):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/config.yaml").write_bytes(content)
    assert "resume=other" in refused(tmp_path, *RUN, "resume=other")


def test_what_was_killed_before_it_began_is_begun_anew(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/run_1").mkdir()
    for name in ("log.txt", "config.yaml.part", "run_1/log.txt"):
        (tmp_path / "out" / name).write_bytes(b"")
    done = eighth(tmp_path, "run", *RUN, "seed=1", "out=out")
    assert done.returncode == 0, done.stderr
