"""Runs the suite's commands as a user does: in a process of their own, in a folder of their own."""

import os
import subprocess
import sys
from pathlib import Path

from tests.waiting import FOREVER_S

PROJECT = Path(__file__).resolve().parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PROJECT)}


def start(folder: Path, module: str, *arguments: str, **options) -> subprocess.Popen:
    """Start `python -m module arguments` in `folder`."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


def run(folder: Path, module: str, *arguments: str, **options) -> subprocess.CompletedProcess:
    """Run `python -m module arguments` in `folder` and return its exit code and output."""
    process = start(folder, module, *arguments, **options)
    out, err = process.communicate(timeout=FOREVER_S)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def eighth(folder: Path, command: str, *arguments: str, **options) -> subprocess.CompletedProcess:
    """Run a command of the suite with the eighth task added."""
    return run(folder, "tests.eighth_task", command, *arguments, **options)
