"""MLflow beside a run: a process of its own follows the log, so that no server can stop or slow the training."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
from pathlib import Path

from suite.config.folder import ROOT

WAIT_S = 20.0  # for MLflow before the clock starts, and after it has stopped
FOLLOWING = "following"  # the first word that `suite.sync --follow` prints once MLflow has answered
FOLLOWED = "SUITE_FOLLOWED"  # the process with which a follower ends; it may be gone before the follower looks


class Tracker:
    """Runs `python -m suite.sync --follow` on one evidence folder. None of its methods raises because of MLflow.

    The process has its own session, so that Ctrl-C in the terminal does not keep it from writing the run's end. It
    ignores SIGINT and SIGTERM, and ends by itself when its standard input does, or when this process dies.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process; returns at once."""
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "suite.sync", "--follow", str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(paths),
                "CUDA_VISIBLE_DEVICES": "",
                FOLLOWED: str(os.getpid()),
            },
        )

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` for MLflow to be imported and to answer; return whether it has answered."""
        assert self._process
        assert self._process.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout_s):
                return False
        return os.read(self._process.stdout.fileno(), 4096).startswith(FOLLOWING.encode())

    def finish(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` after the sealing, then kill the process; return whether MLflow has everything."""
        if self._process is None:
            self.start()
        assert self._process
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        return code == 0

    def close(self) -> None:
        """Let the process make a last pass and end, whether or not the run has ended; returns at once."""
        if self._process and self._process.stdin:
            self._process.stdin.close()
