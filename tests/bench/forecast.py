"""Forecasts held to true runs: a probe of about a minute, the forecast from it, then the run.

    python -m tests.bench.forecast [--tasks NAME ...] [--frameworks NAME ...] [--scale mini] [--runs 2]

A row for each run: the forecast of its time (median, and the interval of 90 % of runs), the time that it took, whether
the interval held it, and the error of the forecast for as many samples as the run then needed, which leaves out what
the seed decides. Wanted: errors within 10 %, 9 of 10 runs within their interval. On a machine that does nothing else.
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

from suite import config
from suite.errors import UserError
from suite.forecast import rates, sources
from suite.forecast.model import forecast, seconds_at
from suite.forecast.needed import needed
from suite.measure.machine import detect
from suite.probe import record
from suite.record import mllog
from suite.record.evidence import LOG
from suite.record.summary import summarise


def rows(task: str, given: argparse.Namespace, framework: str) -> Iterator[dict[str, Any]]:
    """A row for each true run."""
    benchmark, what = config.benchmark(task, given.scale), f"{task}/{given.scale} {framework}"
    try:
        runs = needed(benchmark)
    except UserError as error:
        yield {"what": what, "not known": str(error)}
        return
    words = [f"task={task}", f"scale={given.scale}", f"framework={framework}", "hw=cpu", "mlflow=false"]
    with tempfile.TemporaryDirectory() as folder:
        how = [f"repeats={sources.REPEATS}", f"seconds={sources.SECONDS:g}", f"out={folder}/probe"]
        _command("suite.probe", "level=clock", *words, *how)
        probe = record.read(Path(folder) / "probe")
        (cell,) = probe.cells
        known = rates.measured(cell, "probe")
        made = forecast(runs, known, config.system("cpu"), detect(), framework)
        for index in range(1, given.runs + 1):
            out = Path(folder) / f"run_{index}"
            _command("suite.run", *words, f"out={out}")
            true = summarise(list(mllog.read(out / LOG)))
            assert true.seconds
            assert true.samples
            then = seconds_at(benchmark, known, true.samples)
            yield {
                "what": what,
                "median": round(made.seconds.median, 1),
                "low": round(made.seconds.low, 1),
                "high": round(made.seconds.high, 1),
                "true": round(true.seconds, 1),
                "reached": true.converged,
                "held": made.seconds.low <= true.seconds <= made.seconds.high,
                "samples": true.samples,
                "error at its samples, %": round(100 * (then / true.seconds - 1), 1),
                "limited by": made.limited_by,
                "noisy": [*probe.noisy, *true.noise],
            }


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
    given = parser.parse_args()
    made = []
    for task in given.tasks:
        for framework in given.frameworks:
            for row in rows(task, given, framework):
                print(json.dumps(row), flush=True)
                made.append(row)
    runs = [row for row in made if "true" in row]
    if runs:
        held = sum(row["held"] for row in runs)
        close = sum(abs(row["error at its samples, %"]) <= 10 for row in runs)
        print(f"{len(runs)} runs: {held} within their interval, {close} within 10 % at their samples")


if __name__ == "__main__":
    main()
