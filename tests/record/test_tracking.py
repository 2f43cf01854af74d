"""The follower beside a run: it brings the run into MLflow, and no server can hold the run up."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from suite.record.tracking import Tracker
from tests.record.example_run import ExampleRun
from tests.record.mlflow_content import content
from tests.waiting import FOREVER_S

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def followed(folder: Path) -> tuple[ExampleRun, Tracker]:
    """A run that has begun, and its tracker, which MLflow has answered."""
    run = ExampleRun(folder / "out").begin()
    tracker = Tracker(run.folder)
    tracker.start()
    assert tracker.wait_ready(FOREVER_S)
    return run, tracker


@pytest.mark.slow
def test_a_followed_run_is_in_mlflow_when_it_has_ended(tmp_path: Path) -> None:
    run, tracker = followed(tmp_path)
    run.block(0.9).end().seal()
    assert tracker.finish(FOREVER_S)
    (found,) = content(f"sqlite:///{tmp_path}/mlflow.db")
    assert (found["status"], len(found["points"]["accuracy"]), len(found["artifacts"])) == ("FINISHED", 1, 6)


@pytest.mark.slow
def test_a_run_that_is_given_up_is_brought_in_as_far_as_it_came(tmp_path: Path) -> None:
    run, tracker = followed(tmp_path)
    run.block(0.9)
    tracker.close()
    assert tracker.finish(FOREVER_S)
    (found,) = content(f"sqlite:///{tmp_path}/mlflow.db")
    assert (found["status"], len(found["points"]["accuracy"]), found["artifacts"]) == ("RUNNING", 1, [])


@pytest.mark.slow
def test_a_run_that_was_never_followed_comes_in_at_its_end(tmp_path: Path) -> None:
    assert Tracker(ExampleRun(tmp_path / "out").complete().folder).finish(FOREVER_S)
    assert len(content(f"sqlite:///{tmp_path}/mlflow.db")) == 1


@pytest.mark.slow
def test_ctrl_c_in_the_terminal_leaves_the_follower_at_work(tmp_path: Path) -> None:
    run = ExampleRun(tmp_path / "out").begin()
    harness = (
        "import pathlib, signal, sys\n"
        "from suite.record.tracking import Tracker\n"
        "signal.signal(signal.SIGINT, lambda number, frame: None)\n"
        f"tracker = Tracker(pathlib.Path({str(run.folder)!r}))\n"
        "tracker.start()\n"
        f"print(tracker.wait_ready({FOREVER_S}), flush=True)\n"
        "sys.stdin.readline()\n"
        f"print(tracker.finish({FOREVER_S}))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", harness],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout
    assert process.stdout.readline() == "True\n"
    os.killpg(process.pid, signal.SIGINT)
    run.block(0.5).end("interrupt").seal()
    out, _ = process.communicate("\n")
    assert out == "True\n"
    assert content(f"sqlite:///{tmp_path}/mlflow.db")[0]["status"] == "KILLED"


def test_a_server_that_refuses_is_known_at_once_and_does_not_stop_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{taken.getsockname()[1]}")
        run = ExampleRun(tmp_path / "out").begin()
        tracker = Tracker(run.folder)
        tracker.start()
        assert not tracker.wait_ready(FOREVER_S)  # far less, or this test never ends
        run.block(0.9).end().seal()
        assert not tracker.finish(FOREVER_S)


def test_a_server_that_never_answers_is_given_up_when_the_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "3600")
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.getsockname()[1]}")
        run = ExampleRun(tmp_path / "out").begin()
        tracker = Tracker(run.folder)
        tracker.start()
        connection, _ = server.accept()
        assert not tracker.wait_ready(0.1)
        run.block(0.9).end().seal()
        assert not tracker.finish(0.1)
        with connection:
            while connection.recv(4096):  # until the process is gone
                pass
