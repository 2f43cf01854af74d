"""What a folder that a run began in accepts, and from whom."""

import shutil

import pytest
import yaml
from filelock import FileLock

from suite.harness.folder import LOCK
from tests.command import eighth
from tests.test_run import RUN, keys, lines


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


@pytest.mark.parametrize(
    "late",
    [
        "hw.price_per_hour=9",
        "task.scales.mini.target=0.5",
        "task.scales.mini.hyperparameters.opt_base_learning_rate=7",
        "out=elsewhere",
    ],
)
def test_what_would_change_a_run_comes_too_late(cut, late):
    assert f"{late} comes too late: resume=cut" in refused(cut.parent, *RUN, "resume=cut", late)
    assert not (cut / "run_2/manifest.json").exists()


def test_the_same_command_goes_on_with_resume(cut):
    same = ("seed=1", "runs=2", "out=cut", "task.scales.mini.target=0.97", "hw.price_per_cpu_hour=0.05132")
    done = eighth(cut.parent, "run", *RUN, *same, "resume=cut")
    assert done.returncode == 0, done.stderr
    assert keys(cut / "run_2").count("suite_restart") == 1


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


def test_a_restart_forgets_the_evaluations_behind_it(cut):
    """Their predictions stay, for no later ones replaced them, and the summary does not count them."""
    folder = cut / "run_2"
    raw = (folder / "log.txt").read_bytes()
    assert eighth(cut.parent, "run", *RUN, "resume=cut").returncode == 0
    stop = next(line for line in lines(folder) if line.key == "run_stop")
    last = [line for line in lines(folder) if line.key == "eval_accuracy"][-1]
    assert stop.metadata["samples_count"] == last.metadata["samples_count"]
    assert (folder / "log.txt").read_bytes().startswith(raw)


def test_a_diverged_run_ends_at_once_with_sealed_evidence(tmp_path):
    wild = ("task.scales.mini.hyperparameters.opt_base_learning_rate=1.0e+308", "division=open")
    done = eighth(tmp_path, "run", *RUN, "seed=1", "out=wild", *wild)
    assert done.returncode == 3, done.stderr
    stop = next(line for line in lines(tmp_path / "wild") if line.key == "run_stop")
    assert (stop.metadata["status"], stop.metadata["reason"]) == ("aborted", "diverged")
    assert stop.metadata["samples_count"] < 400
    assert "verdict   pass" in done.stdout, done.stdout


@pytest.mark.parametrize("name", ["ünï", "it's", "a b", "1_000", "a=b", "${seed}"])
def test_a_folder_may_have_any_name(tmp_path, name):
    done = eighth(tmp_path, "run", *RUN, "seed=1", f"out={name}", "submitter=Universität, Inc.")
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load((tmp_path / name / "config.yaml").read_text())["submitter"] == "Universität, Inc."
