"""Workers that the suite starts itself."""

import signal
import subprocess
import sys

import pytest

from suite.harness.workers.place import Place
from suite.harness.workers.starting import started

SLEEPS = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_a_worker_looks_for_modules_where_its_leader_does(tmp_path, monkeypatch):
    for folder in ("leader", "current"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "told.py").write_text("import pathlib; pathlib.Path('told.txt').write_text(__file__)")
    monkeypatch.syspath_prepend(tmp_path / "leader")
    monkeypatch.chdir(tmp_path / "current")
    with started(Place(), 2, "told") as (_, (worker,)):
        assert worker.wait() == 0
    assert (tmp_path / "current/told.txt").read_text() == str(tmp_path / "leader/told.py")


def test_a_signal_as_a_worker_is_started_is_not_lost(monkeypatch):
    start = subprocess.Popen

    def interrupted(command, **given):
        process = start(SLEEPS, **given)
        signal.raise_signal(signal.SIGINT)
        return process

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    monkeypatch.setattr("suite.harness.workers.starting._END_S", 0.1)
    with pytest.raises(KeyboardInterrupt), started(Place(), 2):
        pass
