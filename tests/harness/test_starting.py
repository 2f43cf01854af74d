"""Workers that the suite starts itself."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from suite.harness.workers import starting
from suite.harness.workers.place import Place
from suite.harness.workers.starting import started, take_share

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
    start, workers = subprocess.Popen, []

    def interrupted(command, **given):
        workers.append(start(SLEEPS, **given))
        signal.raise_signal(signal.SIGINT)
        return workers[0]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    monkeypatch.setattr("suite.harness.workers.starting._END_S", 0.1)
    with pytest.raises(KeyboardInterrupt), started(Place(), 2):
        pass
    assert [each.returncode for each in workers] == [-signal.SIGKILL]


@pytest.mark.parametrize(("given", "threads"), [(False, "4"), (True, "1")])
def test_torchrun_s_one_thread_is_no_choice_of_the_user_s(given, threads, monkeypatch):
    monkeypatch.setattr(starting, "usable_cpus", lambda: 8)
    monkeypatch.setattr(starting, "_began_with", lambda name: given)
    monkeypatch.setattr(starting, "NODES", Path("/nowhere"))
    monkeypatch.setattr(starting, "STARTED", {"OMP_NUM_THREADS": "1"})
    environ = {"OMP_NUM_THREADS": "1"}
    take_share(Place(0, 2, 0, 2, launcher="torchrun"), environ)
    assert environ["OMP_NUM_THREADS"] == threads
    assert ("OMP_NUM_THREADS" in starting.STARTED) == given
