"""A real `mlflow server` on PostgreSQL, killed in the middle of a run and started again."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from suite import sync
from suite.record.tracking import Tracker
from tests.record.example_run import ExampleRun
from tests.record.mlflow_content import content
from tests.waiting import FOREVER_S, until


def _postgresql() -> Path | None:
    """The newest PostgreSQL's programs; Debian keeps them out of PATH."""
    found = shutil.which("pg_isready")
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path(found).parent if found else None)


POSTGRESQL = _postgresql()
pytestmark = [
    pytest.mark.skipif(POSTGRESQL is None, reason="PostgreSQL is not installed (apt-get install postgresql)"),
    pytest.mark.skipif(importlib.util.find_spec("psycopg2") is None, reason="psycopg2 is not installed (extra dev)"),
]


def free_ports() -> tuple[int, int]:
    """Below those that the system gives out, for they are taken later, and again after a restart."""
    for port in range(20_001, 20_999, 2):
        with socket.socket() as one, socket.socket() as another, suppress(OSError):
            one.bind(("127.0.0.1", port))
            another.bind(("127.0.0.1", port + 1))
            return port, port + 1
    raise OSError("no two ports are free")


class TrackingServer:
    """`mlflow server` and its PostgreSQL, which never runs as root."""

    def __init__(self, folder: Path) -> None:
        assert POSTGRESQL
        self._folder = folder
        self._user = "postgres" if os.getuid() == 0 else None
        self._running: list[subprocess.Popen[bytes]] = []
        self._sql_port, self._port = free_ports()
        self.uri = f"http://127.0.0.1:{self._port}"
        if self._user:
            shutil.chown(folder, self._user)
        initdb = [POSTGRESQL / "initdb", "-D", folder / "data", "-U", "suite", "--auth=trust", "--no-sync"]
        subprocess.run(initdb, user=self._user, cwd=folder, check=True, capture_output=True)

    def start(self) -> None:
        """Start both and wait until both answer."""
        assert POSTGRESQL
        sql = [POSTGRESQL / "postgres", "-D", self._folder / "data", "-p", str(self._sql_port)]
        self._popen([*sql, "-h", "127.0.0.1", "-k", self._folder, "-c", "fsync=off"], self._user)
        ready = [POSTGRESQL / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self._sql_port)]
        until(lambda: subprocess.run(ready).returncode == 0)
        store = f"postgresql+psycopg2://suite@127.0.0.1:{self._sql_port}/postgres"
        server = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self._port)]
        artifacts = ["--artifacts-destination", str(self._folder / "artifacts")]
        self._popen([*server, "--workers", "1", "--backend-store-uri", store, *artifacts], None)
        until(self._answers)

    def kill(self) -> None:
        """`kill -9` both with all their processes; what is left of PostgreSQL would not let it start again."""
        while self._running:
            process = self._running.pop()
            parent = psutil.Process(process.pid)
            family = [parent, *parent.children(recursive=True)]
            for each in family:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            process.wait()
            psutil.wait_procs(family)

    def _popen(self, command: list[str | Path], user: str | None) -> None:
        environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        quiet = subprocess.DEVNULL
        self._running.append(
            subprocess.Popen(
                command,
                user=user,
                cwd=self._folder,
                env=environment,
                stdout=quiet,
                stderr=quiet,
                start_new_session=True,
            )
        )

    def _answers(self) -> bool:
        assert all(process.poll() is None for process in self._running), "a server did not start"
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@pytest.fixture
def server() -> Iterator[TrackingServer]:
    with tempfile.TemporaryDirectory() as folder:
        server = TrackingServer(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.kill()


@pytest.mark.slow
def test_a_run_outlives_its_tracking_server_and_comes_in_once(
    server: TrackingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", str(FOREVER_S))
    run = ExampleRun(tmp_path / "run_1", 1, 2, "cafe").begin().block(0.5)
    tracker = Tracker(run.folder)
    tracker.start()
    assert tracker.wait_ready(FOREVER_S)
    until(lambda: any("accuracy" in found["points"] for found in content(server.uri)))

    server.kill()
    run.block(0.6).block(0.7).end().seal()
    assert not tracker.finish(FOREVER_S)

    server.start()
    ExampleRun(tmp_path / "run_2", 2, 2, "cafe").complete()
    assert sync.main([str(tmp_path)]) == 0
    first = content(server.uri)
    assert sync.main([str(tmp_path)]) == 0
    assert content(server.uri) == first
    one, two, parent = first
    assert [point[2] for point in one["points"]["accuracy"]] == [0.5, 0.6, 0.7]
    assert {name: len(found) for name, found in one["points"].items()} == {
        name: len(found) for name, found in two["points"].items()
    }
    assert len(one["artifacts"]) == len(two["artifacts"]) == 6
    assert {child["tags"]["mlflow.parentRunId"] for child in (one, two)} == {parent["id"]}
    assert [point[2] for point in parent["points"]["time_to_quality_s"]] == [30.0]
