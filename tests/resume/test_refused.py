"""What does not go on: another run, one that something else was asked of, a folder of something else or at work."""

import shutil
from pathlib import Path

import pytest
from filelock import FileLock

from suite.config.logkeys import DATASET
from suite.harness.folder import LOCK, used
from tests.command import eighth
from tests.parity_runs import RUN, refused
from tests.rules.editor import Evidence


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


def test_a_run_does_not_go_on_with_other_data(cut):
    Evidence(cut / "run_2").edit(DATASET, lambda record: record["metadata"]["arrays"].update(test_points="0" * 64))
    said = refused(cut.parent, "resume=cut", "mlflow=false")
    assert "test_points of points is not what the run was begun with" in said


def test_out_that_is_a_file_or_of_something_else_is_not_gone_on_with(tmp_path):
    (tmp_path / "file").touch()
    assert "out=file cannot be read (Not a directory): choose another out=\n" in refused(tmp_path, *RUN, "out=file")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/notes.txt").touch()
    assert "out=other is not empty: choose another out=\n" in refused(tmp_path, *RUN, "out=other")


def test_refuses_a_folder_within_the_evidence_of_another_command(ended, tmp_path):
    shutil.copytree(ended, tmp_path / "one")
    shutil.copytree(ended, tmp_path / "several/run_1")
    for out, around in {"one/more": "one", "several/run_4": "several", "several/run_1/a/b": "several/run_1"}.items():
        assert f"out={out} lies within {tmp_path / around}, the evidence" in refused(tmp_path, *RUN, f"out={out}")


def test_a_folder_counts_by_where_it_lies(ended, tmp_path, monkeypatch):
    shutil.copytree(ended, tmp_path / "one")
    (tmp_path / "one/within").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "one/within")
    (tmp_path / "mine/run_1/a").mkdir(parents=True)
    assert f"out=link/new lies within {tmp_path / 'one'}, the evidence" in refused(tmp_path, *RUN, "out=link/new")
    assert "out=mine/run_1/a/..: run_1 is what runs=N calls" in refused(tmp_path, *RUN, "out=mine/run_1/a/..")
    monkeypatch.chdir(tmp_path / "one")
    assert used(Path("../two"), "") is None


def test_refuses_the_name_of_one_of_several_runs(tmp_path):
    said = refused(tmp_path, *RUN, "out=mine/run_1")
    assert "out=mine/run_1: run_1 is what runs=N calls a run of several, not a result: choose another out=\n" in said
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("out", ["-o", "./-o/a"])
def test_refuses_a_name_that_other_commands_take_for_an_option(tmp_path, out):
    assert "begins with a dash, so that other commands take it" in refused(tmp_path, *RUN, f"out={out}")
    assert not list(tmp_path.iterdir())


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


def test_one_of_several_runs_is_not_gone_on_with_by_itself(cut):
    said = refused(cut.parent, *RUN, "resume=cut/run_2")
    assert f"resume=cut/run_2 is one of 2 runs: give the folder that holds them, resume={cut}\n" in said
    assert not (cut / "run_2/run_1").exists()


def test_a_run_that_is_yet_to_begin_is_of_no_other_configuration(cut):
    shutil.rmtree(cut / "run_2")
    said = refused(cut.parent, *RUN, "resume=cut", "hw.workers=2")
    assert "error: hw.workers=2 comes too late: a run of resume=cut has yet to begin, and all have one conf" in said


def test_a_run_goes_on_on_a_machine_that_is_its_system(cut):
    path = cut / "run_1/config.yaml"
    toaster = {"accelerator: null": "accelerator: Coil", "accelerators_per_node: 0": "accelerators_per_node: 1"}
    for usual, other in toaster.items():
        path.write_text(path.read_text().replace(usual, other))
    assert "has none: go on with the run on a machine like that which it was" in refused(cut.parent, *RUN, "resume=cut")


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
