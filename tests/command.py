"""Run the suite's commands as a user does, in a folder of their own and, where it matters, a process of their own."""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import reference_impls
import tasks
from suite.config import folder as conf
from suite.errors import UserError
from suite.errors import command as call
from suite.review.__main__ import main as review_main
from suite.run.__main__ import main as run_main
from tests.eighth_task import install
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


def eighth(folder: Path, command: str, *arguments: str) -> subprocess.CompletedProcess:
    """Run `command`, "run" or "review", with the eighth task added; like the function `run`, but in this process."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.chdir(folder)
        patch.setattr(sys, "argv", [command, *arguments])
        patch.setattr(conf, "CONF", conf.CONF)
        for package in (tasks, reference_impls):
            patch.setattr(package, "__path__", [*package.__path__])
        install()
        with pytest.raises(SystemExit) as ended:
            call({"run": run_main, "review": review_main}[command])
    return subprocess.CompletedProcess(arguments, ended.value.code, out.getvalue(), err.getvalue())


def refuses(main: Callable, words: Sequence[str], said: str) -> None:
    """Check that a command answers these words with one line, and what is in it."""
    with pytest.raises(UserError) as error:
        main([*words])
    assert said in str(error.value)
    assert "\n" not in str(error.value)
