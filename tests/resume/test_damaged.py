"""What a power cut, or a hand, leaves of a run: what is on the disk when, and what no run goes on with."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from suite.record import states
from suite.record.evidence import OF_EACH_RUN
from tests.command import eighth
from tests.eighth_task import NUMPY
from tests.parity_runs import RUN, cut_off, refused


def test_a_checkpoint_that_a_power_cut_emptied_is_one_line(cut):
    (cut / "run_2/checkpoint.npz").write_bytes(b"")
    assert "checkpoint.npz cannot be read" in refused(cut.parent, *RUN, "resume=cut")


def test_a_checkpoint_that_is_ahead_of_the_log_is_one_line(cut):
    """Of a power cut under which the log's last lines were not on the disk yet."""
    log = (cut / "run_2/log.txt").read_bytes()
    states.write(cut / "run_2/checkpoint.npz", {"weights": np.zeros(2), "samples": np.array(600)}, 600)
    said = refused(cut.parent, *RUN, "resume=cut")
    assert "checkpoint.npz is of 600 samples, and the log, whose last lines are lost, tells of 400: delete it" in said
    assert (cut / "run_2/log.txt").read_bytes() == log
    (cut / "run_2/checkpoint.npz").unlink()
    assert eighth(cut.parent, "run", *RUN, "resume=cut").returncode == 0


def test_an_interrupted_run_that_cannot_go_on_keeps_its_seal(ended, tmp_path):
    shutil.copytree(ended, tmp_path / "cut")
    log = tmp_path / "cut/log.txt"
    log.write_text(log.read_text().replace('"reason": "target"', '"reason": "interrupt"'))
    (tmp_path / "cut/checkpoint.npz").write_bytes(b"")
    assert "checkpoint.npz cannot be read" in refused(tmp_path, "resume=cut", "mlflow=false")
    assert (tmp_path / "cut/manifest.json").exists()


def without_its_begin(cut, run="run_1"):
    log = cut / run / "log.txt"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[5:]))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (without_its_begin, "run_1/log.txt lacks what the log of a run begins with: bring back the file as it was, or"),
        (lambda cut: without_its_begin(cut, "run_2"), "run_2/log.txt lacks what the log of a run begins with: bring"),
        (lambda cut: (cut / "run_2/config.yaml").unlink(), "run_2/config.yaml is not what the run was begun with, by"),
        (lambda cut: (cut / "run_1/log.txt").unlink(), "run_1/log.txt lacks what the log of a run begins with: bring"),
        (
            lambda cut: (cut / "run_2/log.txt").write_bytes(b"x" + (cut / "run_2/log.txt").read_bytes()),
            "run_2/log.txt, line 1: does not start with ':::MLLOG': bring back the file as it was, or begin a new run",
        ),
        (lambda cut: (cut / "run_2/system.json").write_bytes(b""), "run_2/system.json cannot be read (not JSON: "),
        (
            lambda cut: (cut / "run_1/config.yaml").write_text(
                (cut / "run_1/config.yaml").read_text().replace("target: 0.97", "target: 0.5")
            ),
            "run_1/config.yaml is not what the run was begun with, by the sum in its log: bring back the file as it",
        ),
    ],
)
def test_evidence_that_is_not_as_it_was_written_is_one_line_and_stays(cut, spoil, said):
    spoil(cut)
    before = {path: path.read_bytes() for path in cut.rglob("*") if path.is_file()}
    assert said in refused(cut.parent, *RUN, "resume=cut")
    assert {path: path.read_bytes() for path in cut.rglob("*") if path.is_file()} == before


def test_what_a_run_begins_with_is_on_the_disk_before_the_clock_runs_and_the_rest_before_it_is_sealed(
    tmp_path, monkeypatch
):
    synced, true = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda at: (synced.append(Path(f"/proc/self/fd/{at}").readlink()), true(at)))
    shutil.copy(NUMPY, tmp_path / "ours.py")
    done = eighth(tmp_path, "run", *RUN, "seed=1", "implementation=ours.py", "out=out")
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    names = [str(path.relative_to(out)) for path in synced if path.is_relative_to(out)]
    begun, ended = names[: names.index(".") + 1], names[names.index(".") + 1 :]
    assert begun[-5:] == ["config.yaml.part", "implementation/ours.py.part", "system.json.part", "log.txt", "."]
    assert ended[-6:] == [*OF_EACH_RUN, "manifest.json.part"]


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
