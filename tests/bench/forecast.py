"""Forecasts held to true runs: a probe of about a minute, the forecast from it, then the run.

    python -m tests.bench.forecast [--tasks NAME ...] [--frameworks NAME ...] [--scale mini] [--runs 2] [--bricks]
        [--out FOLDER]

A row for each run: the forecast of its time (median, and the interval of 90 % of runs), the time that it took, whether
the interval held it, and the error of the forecast for as many samples as the run then needed, which leaves out what
the seed decides. Wanted: errors within 10 %, 9 of 10 runs within their interval. With --bricks the same from the times
of the bricks of a training step (wanted: within 20 %), and the step that is forecast beside the one that the probe saw.
On a machine that does nothing else. Probes, bricks and runs are kept in --out: a run that fails says why there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from suite import config
from suite.config.models import Benchmark
from suite.errors import UserError
from suite.forecast import measurement, rates, sources
from suite.forecast.model import forecast
from suite.forecast.needed import needed
from suite.measure.machine import detect
from suite.probe import record
from suite.record import mllog
from suite.record.evidence import LOG
from suite.record.summary import summarise
from tests.forecast.made import seconds_at

PROBE, BRICKS = "error at its samples, %", "error by bricks, %"
WANTED = {PROBE: 10, BRICKS: 20}


def rows(task: str, given: argparse.Namespace, framework: str) -> Iterator[dict[str, Any]]:
    """A row for each true run."""
    benchmark, what = config.benchmark(task, given.scale), f"{task}/{given.scale} {framework}"
    try:
        runs = needed(benchmark)
    except UserError as error:
        yield {"what": what, "not known": str(error)}
        return
    words = [f"task={task}", f"scale={given.scale}", f"framework={framework}", "hw=cpu", "mlflow=false"]
    folder = given.out / f"{task}_{given.scale}_{framework}"
    how = [f"repeats={sources.REPEATS}", f"seconds={sources.SECONDS:g}", f"out={folder}/probe"]
    _command("suite.probe", "level=clock", *words, *how)
    probe = record.read(folder / "probe")
    (cell,) = probe.cells
    known = rates.measured(cell, "probe", benchmark)
    made = forecast(runs, known, config.system("cpu"), detect(), framework)
    composed = _from_bricks(benchmark, framework, folder) if given.bricks else None
    for index in range(1, given.runs + 1):
        out = folder / f"run_{index}"
        _command("suite.run", *words, f"out={out}")
        true = summarise(list(mllog.read(out / LOG)))
        assert true.seconds
        assert true.samples
        then = seconds_at(benchmark, known, true.samples)
        of_bricks = {}
        if composed:
            by_bricks = seconds_at(benchmark, composed, true.samples)
            of_bricks = {
                BRICKS: round(100 * (by_bricks / true.seconds - 1), 1),
                "step, forecast from bricks / probe": round(float(np.median(composed.step) / np.median(known.step)), 3),
            }
        yield {
            "what": what,
            "median": round(made.seconds.median, 1),
            "low": round(made.seconds.low, 1),
            "high": round(made.seconds.high, 1),
            "true": round(true.seconds, 1),
            "reached": true.converged,
            "held": made.seconds.low <= true.seconds <= made.seconds.high,
            "samples": true.samples,
            PROBE: round(100 * (then / true.seconds - 1), 1),
            **of_bricks,
            "limited by": made.limited_by,
            "noisy": [*probe.noisy, *true.noise],
        }


def _from_bricks(benchmark: Benchmark, framework: str, folder: Path) -> rates.Rates:
    words = [f"task={benchmark.task}", f"scale={benchmark.scale}", f"framework={framework}", "mode=train"]
    _command("suite.bricks", "make", *words, f"out={folder}/bricks.json")
    _command("suite.bricks", "measure", f"{folder}/bricks.json", "hw=cpu", f"out={folder}/timings.json")
    return measurement.read(f"{folder}/timings.json").rates(benchmark, framework, None, config.system("cpu"), detect())


def _command(module: str, *words: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, *words], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        raise SystemExit(done.stderr)


def main() -> None:
    """Print a row for each run as JSON, and what they come to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=config.names("task"))
    parser.add_argument("--frameworks", nargs="+", default=["torch"])
    parser.add_argument("--scale", default="mini")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--bricks", action="store_true")
    parser.add_argument("--out", type=Path, help="default: a new folder for temporary files")
    given = parser.parse_args()
    given.out = given.out or Path(tempfile.mkdtemp(prefix="forecast-"))
    made = []
    for task in given.tasks:
        for framework in given.frameworks:
            for row in rows(task, given, framework):
                print(json.dumps(row), flush=True)
                made.append(row)
    runs = [row for row in made if "true" in row]
    if runs:
        held = sum(row["held"] for row in runs)
        print(f"{len(runs)} runs: {held} within their interval")
        for name, within in WANTED.items():
            told = [abs(row[name]) for row in runs if name in row]
            if told:
                print(f"{name}: {sum(each <= within for each in told)} of {len(told)} within {within}")
    print(f"kept in {given.out}")


if __name__ == "__main__":
    main()
