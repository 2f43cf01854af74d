"""Kill runs at random moments, go on with them, and hold what comes out to a run that nobody disturbed.

    python -m tests.bench.kills [--kills 100] [--tasks A,B] [--frameworks torch] [--folder FOLDER] [--minutes M]

Of each task's mini in each framework one run is left alone. Others of the same seed (a token gives it) are killed by
`kill -9`, gone on with, killed again, and so on, until the task has had its share of the kills; then they run to their
end. Every evaluation (quality, sums of predictions and state) and every loss, also of a part that a kill made void,
must be that of the undisturbed run after as many samples. The kills fall at random, most of them while the clock runs.
What was done stands in FOLDER, and the same command goes on with it, also after --minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_logging.mllog import constants as keys

from suite import config
from suite.config.logkeys import HEAD, RESTART, STATE, TRACKED
from suite.harness.implementation import frameworks
from suite.record.evidence import CONFIG, LOG, MANIFEST, PREDICTIONS
from suite.record.mllog import Line, evaluations, read, samples_of

PROJECT = Path(__file__).resolve().parent.parent.parent
TOKEN = "kills"  # gives all runs of a task one seed, and the same evaluation episodes
IMPORTS_S = 5.0  # about what a command takes until there is a log
SHARES = (1, 2, 5)  # of the kills: before there is a log, while it initialises, and after
WHERE = ("before the head", "before run_start", "between", "training", "evaluating", "after run_stop")
_STATES = {
    RESTART: "between",
    keys.RUN_START: "between",
    keys.BLOCK_START: "training",
    TRACKED: "training",
    keys.EVAL_START: "evaluating",
    keys.EVAL_ACCURACY: "evaluating",
    keys.EVAL_STOP: "between",
    keys.BLOCK_STOP: "between",
    keys.RUN_STOP: "after run_stop",
}


@dataclass
class Pair:
    """A task in a framework, and the folder of its runs."""

    task: str
    framework: str
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.task} {self.framework}"

    @property
    def whole(self) -> Path:
        """The run that nobody disturbs."""
        return self.folder / "whole"

    def start(self, out: Path) -> subprocess.Popen[str]:
        """Begin the run in `out`, or go on with it."""
        begun = (out / CONFIG).exists()
        plan = (
            f"task={self.task}",
            f"framework={self.framework}",
            "scale=mini",
            "hw=cpu",
            f"token={TOKEN}",
            "submitter=example-org",
        )
        words = [f"resume={out}"] if begun else [*plan, f"out={out}"]
        command = [sys.executable, "-m", "suite.run", *words, "mlflow=false"]
        environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(command, env=environment, start_new_session=True, **pipes)

    def finish(self, out: Path) -> None:
        """Let the run in `out` come to its end. Raises RuntimeError where it does not, or does not pass its review."""
        process = self.start(out)
        said, _ = process.communicate()
        if process.returncode or "verdict   pass" not in said:
            raise RuntimeError(f"{out}: exit code {process.returncode}: {said[-2000:]}")


class Ledger:
    """What was done, one JSON object on each line of a file, so that another command goes on with it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: list[dict[str, Any]] = (
            [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        )

    def add(self, **row: Any) -> None:
        self.rows.append(row)
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def of(self, pair: Pair, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["pair"] == pair.name and kind in row]


def lines_of(run: Path) -> list[Line]:
    """The complete lines of a run's log; none before there is one."""
    return [line for line in read(run / LOG) if not line.problem] if (run / LOG).exists() else []


def where(lines: list[Line]) -> str:
    """What a run was at when it was killed, by its log."""
    logged = {line.key for line in lines}
    if keys.RUN_START not in logged:
        return "before run_start" if logged.issuperset(HEAD) else "before the head"
    return next(_STATES[line.key] for line in reversed(lines) if line.key in _STATES)


def outcomes(run: Path) -> list[tuple[str, int | None, str]]:
    """Each fact of the trajectory: what, after how many samples, and its value; also what a kill made void."""
    found = []
    for line in lines_of(run):
        if line.key == keys.EVAL_ACCURACY:
            facts = {name: line.metadata.get(name) for name in ("metrics", "predictions_sha256", "state_sha256")}
        elif line.key == TRACKED:
            facts = {"loss": line.value["loss"]}
        elif line.key == STATE:
            facts = {"initial state": line.value}
        else:
            continue
        found += [(name, samples_of(line), json.dumps(fact)) for name, fact in facts.items()]
    return found


def differences(run: Path, whole: Path) -> list[str]:
    """Where the run departs from the undisturbed one."""
    right = {(name, samples): value for name, samples, value in outcomes(whole)}
    found = [
        f"{name} after {samples}: {value}, not {right.get((name, samples))}"
        for name, samples, value in outcomes(run)
        if right.get((name, samples)) != value
    ]
    for what, at in (("samples of the evaluations", samples_of), ("qualities", lambda line: line.value)):
        a, b = ([at(line) for line in evaluations(lines_of(each))] for each in (run, whole))
        found += [f"{what}: {a}, not {b}"] if a != b else []
    same = (run / PREDICTIONS).read_bytes() == (whole / PREDICTIONS).read_bytes()
    return found if same else [*found, "other predictions"]


def kill(pair: Pair, out: Path, init_s: float, run_s: float) -> str | None:
    """Start, or go on with, the run in `out` and kill it; what it was at, None if it came to its end before."""
    before = Counter(line.key for line in lines_of(out))
    process = pair.start(out)
    mark, most_s = random.choices(
        [(None, IMPORTS_S), (keys.INIT_START if not before else RESTART, init_s), (keys.BLOCK_START, run_s)], SHARES
    )[0]
    while mark and process.poll() is None and Counter(line.key for line in lines_of(out))[mark] == before[mark]:
        time.sleep(0.02)
    moment = time.monotonic() + random.uniform(0, most_s)
    try:
        said, _ = process.communicate(timeout=max(0.0, moment - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return where(lines_of(out))
    if process.returncode:
        raise RuntimeError(f"{out}: exit code {process.returncode}: {said[-2000:]}")
    return None


def disturb(pair: Pair, kills: int, ledger: Ledger, deadline: float) -> None:
    """Give the pair what it lacks of its kills, until the `deadline`."""
    pair.folder.mkdir(parents=True, exist_ok=True)
    if not (pair.whole / MANIFEST).exists():
        pair.finish(pair.whole)
    ends = {line.key: line.time_ms / 1000 for line in lines_of(pair.whole)}
    run_s = ends[keys.RUN_STOP] - ends[keys.RUN_START]
    init_s = ends[keys.RUN_START] - ends[keys.INIT_START]
    while time.monotonic() < deadline:
        rows, killed = ledger.of(pair, "pair"), len(ledger.of(pair, "killed"))
        if killed >= kills and not (rows and "killed" in rows[-1]):  # nor is one left that has to come to its end
            return
        out = pair.folder / f"cut_{len(rows) - killed + 1}"
        began = time.monotonic()
        struck = kill(pair, out, init_s, run_s) if killed < kills else None
        if struck:
            ledger.add(pair=pair.name, killed=struck, seconds=time.monotonic() - began)
        else:
            pair.finish(out)
            ledger.add(pair=pair.name, differences=differences(out, pair.whole), seconds=time.monotonic() - began)


def report(pairs: list[Pair], ledger: Ledger) -> list[str]:
    """The table, and below it what differs."""
    rows: list[list[Any]] = [["task", "kills", *WHERE, "runs", "all the same"]]
    for pair in pairs:
        struck = Counter(row["killed"] for row in ledger.of(pair, "killed"))
        runs = [row["differences"] for row in ledger.of(pair, "differences")]
        said = "not run" if not runs else "NO" if any(runs) else "yes"
        rows.append([pair.name, struck.total(), *(struck[each] for each in WHERE), len(runs), said])
    rows.append(["all", *(sum(row[at] for row in rows[1:]) for at in range(1, len(rows[0]) - 1)), ""])
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in texts) for at in range(len(texts[0]))]
    made = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in texts]
    for pair in pairs:
        made += [f"{pair.name}: {each}" for row in ledger.of(pair, "differences") for each in row["differences"][:5]]
    if kills := sum("killed" in row for row in ledger.rows):
        made.append(f"{sum(row['seconds'] for row in ledger.rows) / kills:.1f} s for a kill, with the runs' ends")
    return made


def main(argv: list[str]) -> int:
    """Kill and compare; the exit code is 1 if anything came out otherwise."""
    given = _arguments(argv)
    named = [(task, each) for task in given.tasks for each in given.frameworks if each in frameworks(task)]
    pairs = [Pair(task, each, given.folder.resolve() / f"{task}-{each}") for task, each in named]
    given.folder.mkdir(parents=True, exist_ok=True)
    ledger, deadline = Ledger(given.folder / "kills.jsonl"), time.monotonic() + 60 * given.minutes
    for at, pair in enumerate(pairs):
        if not given.json:
            print(pair.name, flush=True)
        disturb(pair, (given.kills * (at + 1)) // len(pairs) - (given.kills * at) // len(pairs), ledger, deadline)
    print(json.dumps(ledger.rows) if given.json else "\n".join(report(pairs, ledger)))
    return int(any(row.get("differences") for row in ledger.rows))


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.kills", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="in all (default 100)")
    parser.add_argument("--tasks", type=_names, default=config.names("task"), help="default: all")
    parser.add_argument("--frameworks", type=_names, default=["torch", "tensorflow"], help="default: both")
    parser.add_argument("--folder", type=Path, default=Path("runs/kills"), help="of the runs (default runs/kills)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing after so long")
    parser.add_argument("--json", action="store_true", help="print one JSON list, a row of each kill and of each run")
    return parser.parse_args(argv)


def _names(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
