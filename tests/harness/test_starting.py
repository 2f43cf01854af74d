"""Workers that the suite starts itself."""

import signal
import subprocess
import sys

import pytest

from suite.harness.workers.place import Place
from suite.harness.workers.starting import started

SLEEPS = [sys.executable, "-c", "import time; time.sleep(60)"]


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
