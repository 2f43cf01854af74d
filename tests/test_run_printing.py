"""What a run prints, of a plan and of runs that are told it."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from suite import config
from suite.config.plan import Plan
from suite.record.summary import Summary
from suite.run import printing

OF = (config.benchmark("speech", "mini"), config.system("cpu"), config.framework("torch"))
PLAN = Plan(*OF, "fp32", (7,), None, "0" * 32, "someone", "closed", "research", None, Path("out"))


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=120)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("http://user:secret@host:5000", "http://***@host:5000"),
        ("sqlite:////a.db", "python -m mlflow ui --backend-store-uri sqlite:////a.db"),
    ],
)
def test_says_how_to_look_at_it_in_mlflow(uri, said, console, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    printing.result(console, PLAN, [], mlflow=True, data_dir=None)
    assert console.file.getvalue().endswith(f"mlflow    {said}\n")


def test_says_what_disturbed_a_run_and_what_was_not_measured(console):
    summary = Summary(
        "aborted", "refused", samples=2000, seconds=1.5, noise=("others took 20 %",), restarts=2, aborted=1
    )
    printing.result(console, PLAN, [summary], mlflow=False, data_dir=None)
    said = console.file.getvalue()
    (row,) = [re.findall(r"[^│┃]+", line) for line in said.splitlines() if line.startswith("│ 1")]
    assert [cell.strip() for cell in row[:6]] == ["1", "7", "refused", "none", "2,000", "1.5 s"]
    told = ["1 aborted start, whose time counts as initialisation", "2 restarts, whose time counts"]
    assert [line for line in said.splitlines() if line.startswith("run 1")] == [
        *(f"run 1: {each}" for each in told),
        "run 1 is NOISY: others took 20 %",
    ]


@pytest.mark.parametrize(
    ("launcher", "command"),
    [(None, "python -m"), ("torchrun", "torchrun ... -m"), ("srun", "srun ... python -m")],
)
def test_a_run_goes_on_by_the_launcher_that_it_was_started_by(launcher, command, console):
    printing.go_on(console, "resume=out", launcher)
    assert console.file.getvalue() == f"go on     {command} suite.run resume=out\n"
