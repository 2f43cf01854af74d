"""Kill workers at random moments, go on with another number of them, and hold what comes out to a whole run.

    python -m tests.bench.deaths [--kills 50] [--folder FOLDER]

One run of two workers is left alone. In others of the same seed a worker, the leader or another, is killed by `kill -9`
at a random moment; the run is gone on with by two or three workers, one of whom is killed, and so on, eight times, or
to its target. Then it is finished, and followed by another, until all kills are done. After each kill all processes
have to end by themselves within 60 s; what a run predicted at last has to be what the whole run did, and its review has
to pass. Prints who was killed, what the run was at, after how many seconds all had ended, and the line that was said.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from mlperf_logging.mllog import constants as keys

from suite.record.evidence import LOG, PREDICTIONS
from tests.bench.kills import lines_of, where
from tests.worlds import PLAN, World, run, world

STEPS = ("division=open", "hyperparameters.milliseconds_per_step=40")  # 8 s to the target
SPREAD_S = 3.0  # over which a kill falls, from the start of the command, or of training
WHILE_TRAINING = 0.8  # of the kills
EACH = 8  # kills of one run at most
MOST_S = 300.0


def main(argv: list[str]) -> int:
    """Kill, go on and compare; the exit code is 1 if anything was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.deaths", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50, help="in all (default 50)")
    parser.add_argument("--folder", type=Path, default=Path("runs/deaths"), help="of the runs (default runs/deaths)")
    given = parser.parse_args(argv)
    given.folder.mkdir(parents=True)
    folder, lost = given.folder.resolve(), []
    finish(folder, "whole", 2)
    rows: list[tuple[str, str, float, str]] = []
    index = 0
    while len(rows) < given.kills:
        index += 1
        out = f"cut_{index}"
        most = min(given.kills, len(rows) + EACH)
        while len(rows) < most and (row := kill(folder, out)):
            rows.append(row)
            print(f"{len(rows):3}  {row[0]:8}  {row[1]:16}  {row[2]:5.1f} s  {row[3]}", flush=True)
        finish(folder, out, random.choice((1, 2, 3)))
        if (folder / out / PREDICTIONS).read_bytes() != (folder / "whole" / PREDICTIONS).read_bytes():
            lost.append(out)
    seconds = [row[2] for row in rows]
    said = sum(bool(row[3]) for row in rows)
    print(
        f"{len(rows)} kills in {index} runs: all had ended after {median(seconds):.1f} s in the median, at most after "
        f"{max(seconds):.1f} s; {said} said who was lost; other predictions: {', '.join(lost) or 'none'}"
    )
    return bool(lost)


def begin(made: World, out: str, workers: int) -> World:
    """Begin the run in `out`, or go on with it."""
    log = made.folder / out / LOG
    begun = log.exists() and log.stat().st_size > 0 and (made.folder / out / "config.yaml").exists()
    words: Sequence[str] = ["mlflow=false", f"resume={out}"] if begun else [*PLAN, *STEPS, f"out={out}"]
    return made.start(run(*words, f"hw.workers={workers}"))


def finish(folder: Path, out: str, workers: int) -> None:
    """Let the run in `out` come to its target. Raises AssertionError where it does not, or does not pass its review."""
    with world(folder) as made:
        begin(made, out, workers).ended(MOST_S)
        assert made.codes == [0], made.said
        assert "verdict   pass" in made.said, made.said


def began(out: Path) -> int:
    """How many blocks of training the run has begun."""
    return sum(line.key == keys.BLOCK_START for line in lines_of(out))


def kill(folder: Path, out: str) -> tuple[str, str, float, str] | None:
    """Begin, or go on, and kill a worker: who, what the run was at, the seconds to the end of all, and what was said.

    None if the run came to its end before.
    """
    workers = random.choice((2, 2, 3))
    with world(folder) as made:
        begin(made, out, workers)
        blocks = began(folder / out)
        if random.random() < WHILE_TRAINING:
            while made.started[0].poll() is None and began(folder / out) == blocks:
                time.sleep(0.05)
        until = time.monotonic() + random.uniform(0, SPREAD_S)
        while made.started[0].poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        running = [each for each in made.processes() if "suite.run" in each.cmdline()]
        if not running:
            assert made.codes == [0], made.said
            return None
        victim = random.choice(running)
        leads = victim.pid == made.started[0].pid
        victim.kill()
        seconds = made.ended()
        if made.codes == [0]:  # the run had ended, and its workers were on their way
            return None
        said = [re.sub(r" on \S+?([,:])", r" on HOST\1", line) for line in made.errors]
        return "leader" if leads else "follower", where(lines_of(folder / out)), seconds, " / ".join(said)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
