"""A run that was cut off goes on; what its folder accepts, and from whom."""

import json
import shutil
import time

import pytest
from filelock import FileLock

from suite.harness.folder import LOCK
from tests.command import ENVIRONMENT, eighth, start
from tests.parity_runs import RUN, SLOW, keys, lines, wait_for


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """Two runs, of which the second was killed at its first evaluation."""
    folder = tmp_path_factory.mktemp("begun")
    eighth(folder, "run", *RUN, "seed=1", "runs=2", "out=cut")
    path = folder / "cut/run_2/log.txt"
    raw = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(raw[: keys(folder / "cut/run_2").index("eval_start") + 1]))
    (folder / "cut/run_2/manifest.json").unlink()
    return folder


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


def refused(folder, *arguments):
    done = eighth(folder, "run", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


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
    review = eighth(tmp_path, "review", "cut", "--json")
    found = {finding["rule"] for finding in json.loads(review.stdout)["findings"] if finding["severity"] == "fail"}
    unchanged = json.loads(eighth(tmp_path, "review", "whole", "--json").stdout)
    assert found == {
        f["rule"] for f in unchanged["findings"] if f["severity"] == "fail"
    }  # the slow hyperparameter only


@pytest.mark.parametrize("last", ["init_start", "run_start", "eval_start", "eval_accuracy", "run_stop", "suite_energy"])
def test_goes_on_wherever_the_kill_struck(ended, tmp_path, last):
    shutil.copytree(ended, tmp_path / "cut")
    path = tmp_path / "cut/log.txt"
    raw = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(raw[: keys(tmp_path / "cut").index(last) + 1]))
    (tmp_path / "cut/manifest.json").unlink()
    done = eighth(tmp_path, "run", *RUN, "seed=1", "resume=cut")
    assert done.returncode == 0, done.stderr
    assert keys(tmp_path / "cut").count("run_stop") == 1
    review = eighth(tmp_path, "review", "cut")
    assert review.returncode == 0, review.stdout


@pytest.mark.slow
def test_goes_on_after_many_kills(tmp_path):
    for blocks in range(1, 5):
        killed(tmp_path, *SLOW, "out=cut" if blocks == 1 else "resume=cut", blocks=blocks)
    assert eighth(tmp_path, "run", *SLOW, "resume=cut").returncode == 0
    assert [line.value for line in lines(tmp_path / "cut") if line.key == "suite_restart"] == [1, 2, 3, 4]


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
    assert "out=evidence is not empty" in again.stderr


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


def test_runs_after_one_that_was_interrupted_are_made(cut):
    shutil.rmtree(cut / "run_2")
    path = cut / "run_1/log.txt"
    path.write_bytes(path.read_bytes().replace(b'"reason": "target"', b'"reason": "interrupt"'))
    done = eighth(cut.parent, "run", *RUN, "resume=cut")
    assert keys(cut / "run_2").count("run_stop") == 1, done.stderr
    assert done.returncode in (0, 3)


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


def test_a_checkpoint_that_a_power_cut_emptied_is_one_line(cut):
    (cut / "run_2/checkpoint.npz").write_bytes(b"")
    assert "checkpoint.npz cannot be read" in refused(cut.parent, *RUN, "resume=cut")


def test_what_was_killed_before_it_began_is_begun_anew(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/log.txt").write_bytes(b"")
    done = eighth(tmp_path, "run", *RUN, "seed=1", "out=out")
    assert done.returncode == 0, done.stderr
