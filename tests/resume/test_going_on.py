"""A run that was cut off goes on, wherever that was and whatever is another since."""

import json
import os
import shutil
import time

import numpy as np
import pytest

from suite.config.logkeys import INIT_LIMITS_MIN
from suite.harness.workers.place import LOCALHOST
from suite.measure.cpus import usable_cpus
from suite.record.environment import STARTED
from suite.record.tracking import Tracker
from tests.command import ENVIRONMENT, eighth, start
from tests.parity_runs import RUN, SLOW, cut_off, keys, lines, refused, rules_broken, wait_for
from tests.rules.editor import Evidence


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


@pytest.mark.slow
def test_goes_on_after_many_kills(tmp_path):
    for blocks in range(1, 5):
        killed(tmp_path, *SLOW, "out=cut" if blocks == 1 else "resume=cut", blocks=blocks)
    assert eighth(tmp_path, "run", *SLOW, "resume=cut").returncode == 0
    log = lines(tmp_path / "cut")
    assert [line.value for line in log if line.key == "suite_restart"] == [1, 2, 3, 4]
    assert {line.metadata["clock"]["source"] for line in log if line.key == "suite_restart"} == {"boot"}


def test_a_seal_that_is_older_than_the_log_ends_no_run(ended, tmp_path):
    shutil.copytree(ended, tmp_path / "cut")
    cut_off(tmp_path / "cut", "eval_start")
    shutil.copy(ended / "manifest.json", tmp_path / "cut")
    done = eighth(tmp_path, "run", "resume=cut", "mlflow=false")
    assert done.returncode == 0, done.stderr
    assert keys(tmp_path / "cut").count("run_stop") == 1
    assert rules_broken(tmp_path, "cut") == set()


def test_resume_of_a_finished_run_changes_nothing(ended, tmp_path):
    shutil.copytree(ended, tmp_path / "evidence")
    log = (tmp_path / "evidence/log.txt").read_bytes()
    done = eighth(tmp_path, "run", "resume=evidence")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "evidence/log.txt").read_bytes() == log


def test_a_run_whose_clock_runs_does_not_wait_for_mlflow(cut, monkeypatch):
    waited = []
    for name in ("start", "finish"):
        monkeypatch.setattr(Tracker, name, lambda *_: True)
    monkeypatch.setattr(Tracker, "wait_ready", lambda tracker, timeout_s: waited.append(timeout_s))
    for waits in (0, 1):
        done = eighth(cut.parent, "run", "resume=cut")
        assert done.returncode == 0, done.stderr
        assert len(waited) == waits
        shutil.rmtree(cut / "run_2")


def test_the_same_command_goes_on_with_resume(cut):
    same = ("seed=1", "runs=2", "out=cut", "target=0.97", "hw.price_per_cpu_hour=0.05132")
    same += ("evaluation={every: 200}", "hw.link_gb_per_s=1", "hw.link_latency_us=5", "precision=null", "scale=null")
    done = eighth(cut.parent, "run", *RUN, *same, "resume=cut")
    assert done.returncode == 0, done.stderr
    assert keys(cut / "run_2").count("suite_restart") == 1


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


@pytest.mark.parametrize(("times", "code"), [(None, 0), ((0, 0), 2)])
def test_a_leader_that_torchrun_starts_again_without_counting_it_goes_on(cut, monkeypatch, times, code):
    """It counts the restarts of a node whose own worker was the first to end; an older run is not taken for its own."""
    sizes = dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), "1")
    told = {**dict.fromkeys(("RANK", "LOCAL_RANK", "GROUP_RANK", "TORCHELASTIC_RESTART_COUNT"), "0"), **sizes}
    for name, value in {**told, "MASTER_ADDR": LOCALHOST, "MASTER_PORT": "1", "TORCHELASTIC_RUN_ID": "key"}.items():
        monkeypatch.setenv(name, value)
    os.utime(cut / "run_1/config.yaml", times)
    done = eighth(cut.parent, "run", *RUN, "seed=1", "runs=2", "out=cut")
    assert done.returncode == code, done.stderr
    assert ("out=cut is not empty" in done.stderr) == (code == 2)
    assert keys(cut / "run_2").count("suite_restart") == (code == 0)


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


def test_an_attempt_of_a_later_run_that_is_too_late_is_deleted_and_made_again(cut):
    (cut / "run_2/manifest.json").touch()
    cut_off(cut / "run_2", "suite_dataset")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(INIT_LIMITS_MIN, "closed", 0)
        said = refused(cut.parent, "resume=cut", "mlflow=false")
    assert said.endswith(f"timing.2 allows 0: delete {cut}/run_2 and give the command again\n")
    shutil.rmtree(cut / "run_2")
    assert "verdict   pass" in eighth(cut.parent, "run", "resume=cut", "mlflow=false").stdout


def test_what_was_killed_before_it_began_is_begun_anew_also_with_another_number_of_runs(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/run_1").mkdir()
    for name in ("log.txt", "config.yaml.part", "run_1/log.txt"):
        (tmp_path / "out" / name).write_bytes(b"")
    done = eighth(tmp_path, "run", *RUN, "seed=1", "out=out")
    assert done.returncode == 0, done.stderr
    assert "verdict   pass" in done.stdout
