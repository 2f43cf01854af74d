"""Runs of the eighth task: their options, and their logs."""

from pathlib import Path

from suite.record import mllog
from tests.waiting import until

RUN = ("task=parity", "framework=numpy", "hw=cpu", "mlflow=false")
SLOW = (*RUN, "seed=1", "hyperparameters.milliseconds_per_step=30")


def lines(folder: Path) -> list[mllog.Line]:
    return list(mllog.read(folder / "log.txt"))


def keys(folder: Path) -> list[str]:
    return [line.key for line in lines(folder)]


def wait_for(folder: Path, key: str, count: int = 1) -> None:
    until(lambda: (folder / "log.txt").exists() and keys(folder).count(key) >= count)
