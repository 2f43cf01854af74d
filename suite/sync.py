"""`python -m suite.sync FOLDER`: bring evidence into MLflow, once and only once, however often it is called."""

from __future__ import annotations

import os
import select
import shlex
import signal
import sys
import time
from pathlib import Path

from suite.errors import OneLineParser, UserError, command
from suite.harness.interrupt import SIGNALS
from suite.probe import record
from suite.probe.tracking import track
from suite.record import evidence
from suite.record.mirror import Mirror
from suite.record.summary import format_count
from suite.record.tracking import FOLLOWED, FOLLOWING
from suite.record.tracking_server import BehindError, tracking_uri, without_secrets

BEHIND = 1
_TICK_S = 1.0
_UPDATE_S = 5.0
_LONGEST_WAIT_S = 60.0


def main(argv: list[str]) -> int:
    """Run the command line `argv`. Return 0 if MLflow has everything, 1 if it does not."""
    parser = OneLineParser(
        "python -m suite.sync",
        "Bring evidence, or a probe, into MLflow: at MLFLOW_TRACKING_URI, or else into mlflow.db in\n"
        "the working folder. Nothing is ever brought in twice.",
    )
    parser.add_argument("folder", type=Path, help="an evidence folder, one that holds run_1, run_2, ..., or a probe's")
    parser.add_argument("--follow", action="store_true", help="keep up with a run until it has ended")
    options = parser.parse_args(argv)
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "5" if options.follow else "30")
    try:
        if record.holds(options.folder):
            track(options.folder)
            print(f"in MLflow at {without_secrets(tracking_uri())}: 1 probe")
        else:
            follow(options.folder) if options.follow else sync(options.folder)
    except BehindError as error:
        again = f"python -m suite.sync {shlex.quote(str(options.folder))}"
        print(f"error: {error}. The evidence is whole; try again: {again}", file=sys.stderr)
        return BEHIND
    return 0


def sync(folder: Path) -> None:
    """Bring in the run, or runs, of a folder. Raises UserError if it has no evidence, BehindError as `Mirror` does."""
    sent, named, runs = 0, 0, 0
    for run in evidence_folders(folder):
        mirror = Mirror(run, patience_s=60)
        try:
            mirror.update()
        finally:
            mirror.close()
        named += mirror.view.run_id is not None
        runs += mirror.view.started_ms is not None
        sent += mirror.sent
    if not named:
        raise UserError(f"{folder}: {evidence.LOG} names no run: it is not a log of this suite.")
    where = without_secrets(tracking_uri())
    print(f"in MLflow at {where}: {format_count(runs, 'run')}, {sent} metric points of them new")


def evidence_folders(folder: Path) -> list[Path]:
    """The folder itself, or its run_1, run_2, ... Raises UserError when there is no log in any."""
    below = sorted(folder.glob("run_*"), key=lambda path: (len(path.name), path.name))
    found = [path for path in (folder, *below) if (path / evidence.LOG).is_file()]
    if not found:
        raise UserError(f"{folder} is not an evidence folder: neither it nor a run_1 in it holds {evidence.LOG}.")
    return found


def follow(folder: Path) -> None:
    """Keep MLflow up to date with a run until its evidence is sealed, or whoever asked for this gives it up or is gone.

    Says on standard output whether MLflow answered. Raises UserError for a folder of no run, or of several, and
    BehindError when the last attempt fails.
    """
    if not (folder / evidence.LOG).is_file():
        raise UserError(f"{folder} holds no {evidence.LOG}: --follow takes the folder of one run.")
    parent = int(os.environ.get(FOLLOWED, os.getppid()))
    pipes = []
    if FOLLOWED in os.environ:  # SLURM tells all processes of a step to end; this one must still write the run's end
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        pipes = [sys.stdin]
    os.nice(19)
    mirror = Mirror(folder)
    try:
        mirror.contact()
        print(f"{FOLLOWING} {folder}", flush=True)
    except BehindError as error:
        print(f"{error}: trying on", flush=True)
    wait_s, next_s = _UPDATE_S, 0.0
    while True:
        given_up, _, _ = select.select(pipes, [], [], 0)
        last = bool(given_up) or mirror.view.sealed or os.getppid() != parent
        if last or time.monotonic() >= next_s:
            try:
                mirror.update()
                wait_s = _UPDATE_S
            except BehindError:
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
                if last:
                    raise
            if last:
                return
            next_s = time.monotonic() + wait_s
        time.sleep(_TICK_S)


if __name__ == "__main__":
    command(main)
