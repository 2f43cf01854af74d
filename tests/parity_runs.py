"""Runs of the eighth task: their options, their logs, their refusals and the rules that they break."""

import json
from pathlib import Path

from suite.record import mllog
from tests.command import eighth
from tests.waiting import until

RUN = ("task=parity", "framework=numpy", "hw=cpu", "mlflow=false")
SLOW = (*RUN, "seed=1", "hyperparameters.milliseconds_per_step=30")


def lines(folder: Path) -> list[mllog.Line]:
    return list(mllog.read(folder / "log.txt"))


def keys(folder: Path) -> list[str]:
    return [line.key for line in lines(folder)]


def wait_for(folder: Path, key: str, count: int = 1) -> None:
    until(lambda: (folder / "log.txt").exists() and keys(folder).count(key) >= count)


def begin(folder):
    """Make two runs in `cut` below the folder, the second as if killed at its first evaluation."""
    eighth(folder, "run", *RUN, "seed=1", "runs=2", "out=cut")
    cut_off(folder / "cut/run_2", "eval_start")
    return folder


def cut_off(folder: Path, last: str) -> None:
    """Leave only what a kill after the first line of key `last` would leave of a run."""
    path = folder / "log.txt"
    raw = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(raw[: keys(folder).index(last) + 1]))
    (folder / "manifest.json").unlink()


def refused(folder: Path, *arguments: str) -> str:
    """The one line of error with which a run of these arguments ends."""
    done = eighth(folder, "run", *arguments)
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def rules_broken(folder: Path, name: str) -> set[str]:
    """The rules that the review of `name` in `folder` finds broken."""
    review = json.loads(eighth(folder, "review", name, "--json").stdout)
    return {finding["rule"] for finding in review["findings"] if finding["severity"] == "fail"}
