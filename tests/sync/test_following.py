"""`python -m suite.sync --follow`: keeps up with one run and ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from suite import sync
from suite.config.folder import ROOT
from suite.errors import UserError
from suite.record.tracking import FOLLOWED
from tests.record.example_run import ExampleRun
from tests.record.mlflow_content import content
from tests.sync.conftest import SYNC, start
from tests.waiting import FOREVER_S, until


@pytest.mark.slow
def test_following_keeps_up_and_ends_with_the_run(tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLLOWED, str(os.getpid()))
    run = ExampleRun(tmp_path / "out").begin().block(0.5)
    follower = start(run.folder, "--follow")
    assert follower.stdout
    assert follower.stdout.readline().startswith("following")
    until(lambda: content(uri))
    assert content(uri)[0]["status"] == "RUNNING"
    run.block(0.6)
    until(lambda: len(content(uri)[0]["points"].get("accuracy", [])) == 2)
    assert follower.poll() is None
    follower.send_signal(signal.SIGTERM)  # as SLURM ends a job; the run ends and seals
    follower.send_signal(signal.SIGINT)  # as scancel --signal=INT does
    run.end("interrupt").seal()
    assert follower.wait(FOREVER_S) == 0
    (found,) = content(uri)
    assert (found["status"], len(found["artifacts"])) == ("KILLED", 6)
    assert "time_to_quality_s" not in found["points"]


@pytest.mark.slow
def test_following_ends_after_a_last_pass_when_the_run_is_killed(tmp_path: Path, uri: str) -> None:
    run = ExampleRun(tmp_path / "out").begin().block(0.5)
    parent = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {SYNC!r}, '--follow', {str(run.folder)!r}])\n"
        "time.sleep(600)\n"
    )
    harness = subprocess.Popen(
        [sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert harness.stdout
    assert harness.stdout.readline().startswith("following")
    run.block(0.6)
    harness.send_signal(signal.SIGKILL)
    harness.communicate(timeout=FOREVER_S)  # until the follower, which holds the other end, is gone too
    (found,) = content(uri)
    assert (found["status"], len(found["points"]["accuracy"])) == ("RUNNING", 2)


def test_to_follow_takes_the_folder_of_one_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no log\.txt: --follow takes the folder of one run"):
        sync.main([str(tmp_path), "--follow"])
