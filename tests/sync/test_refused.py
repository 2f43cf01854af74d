"""`python -m suite.sync` where MLflow refuses something, has lost a run, or cannot be opened."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mlflow import MlflowClient

from suite import sync
from suite.record.mirror import Mirror
from suite.record.tracking_server import BehindError
from tests.record.example_run import ExampleRun
from tests.record.mlflow_content import content


def test_a_run_whose_files_are_refused_has_ended_in_mlflow(
    tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError("no credentials")

    run = ExampleRun(tmp_path / "out").complete()
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "log_artifact", refused)
        assert sync.main([str(run.folder)]) == 1
    (ended,) = content(uri)
    assert sync.main([str(run.folder)]) == 0
    (found,) = content(uri)
    assert ended["status"] == found["status"] == "FINISHED"
    assert (ended["artifacts"], bool(found["artifacts"])) == ([], True)


def test_a_run_that_is_deleted_meanwhile_comes_in_again_whole(tmp_path: Path, uri: str) -> None:
    run = ExampleRun(tmp_path / "out").begin()
    mirror = Mirror(run.folder)
    run.block(0.5)
    mirror.update()
    (gone,) = content(uri)
    MlflowClient(uri).delete_run(gone["id"])
    run.block(0.6)
    with pytest.raises(BehindError):
        mirror.update()
    mirror.update()
    mirror.close()
    (found,) = content(uri)
    assert gone["points"]
    for name, points in gone["points"].items():
        assert set(points) <= set(found["points"][name])


def test_a_result_that_was_deleted_comes_in_again_with_the_runs_that_are_there(tmp_path: Path, uri: str) -> None:
    for index in (1, 2):
        ExampleRun(tmp_path / "out" / f"run_{index}", index, 2, "cafe").complete()
    assert sync.main([str(tmp_path / "out")]) == 0
    *runs, gone = content(uri)
    MlflowClient(uri).delete_run(gone["id"])
    assert sync.main([str(tmp_path / "out")]) == 0
    *again, parent = content(uri)
    assert [run["id"] for run in again] == [run["id"] for run in runs]
    assert {run["tags"]["mlflow.parentRunId"] for run in again} == {parent["id"]} != {gone["id"]}
    for name in ("status", "times", "points"):
        assert parent[name] == gone[name]


@pytest.mark.parametrize("address", ["http://me:secret@127.0.0.1:{}", "http://127.0.0.1:{}?password=secret"])
def test_a_server_that_refuses_is_one_line_without_the_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], address: str
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address.format(taken.getsockname()[1]))
        folder = ExampleRun(tmp_path / "out").complete().folder
        assert sync.main([str(folder)]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"python -m suite.sync {folder}" in err
    assert "127.0.0.1" in err
    assert "secret" not in err


@pytest.mark.parametrize("end", ["\r", "\n", "\r of mine"])
def test_a_token_that_no_header_can_hold_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], end: str
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", f"secret{end}")
    assert sync.main([str(ExampleRun(tmp_path / "out").complete().folder)]) == 1
    err = capsys.readouterr().err
    assert "in header value: 'Bearer ***. The evidence is whole" in err
    assert "secret" not in err


def test_a_database_that_cannot_be_opened_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waits: list[float] = []
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}")  # a folder
    monkeypatch.setattr(time, "sleep", waits.append)
    assert sync.main([str(ExampleRun(tmp_path / "out").complete().folder)]) == 1
    assert "unable to open database file" in capsys.readouterr().err
    assert sum(waits) < 1


@contextmanager
def full_disk(bytes_of_a_file: int) -> Iterator[None]:
    """As if the disk had no room for a file to become longer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_of_a_file, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_database_that_takes_no_more_is_told_in_its_own_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sync.main([str(ExampleRun(tmp_path / "one").complete().folder)]) == 0
    folder = ExampleRun(tmp_path / "out", result_id="two").complete().folder
    with full_disk(1000):
        assert sync.main([str(folder)]) == 1
    assert "mlflow.db: (sqlite3.OperationalError) disk I/O error. The evidence" in capsys.readouterr().err


@pytest.mark.slow
def test_a_database_that_found_no_room_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri := f"sqlite:///{tmp_path}/new.db")
    folder = ExampleRun(tmp_path / "out").complete().folder
    with full_disk(300_000):
        assert sync.main([str(folder)]) == 1
    assert "disk" in capsys.readouterr().err
    assert sync.main([str(folder)]) == 0
    assert len(content(uri)) == 1
