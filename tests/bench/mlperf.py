"""The review of MLPerf logs against MLCommons' own checker: do the verdicts agree, and how much faster is it?

    python -m tests.bench.mlperf [FOLDER] [--logs N] [--json]

FOLDER (else the environment variable MLPERF_LOGS) holds submissions in one folder for each round, v0.7, v4.0, ..., and
official_verdicts.csv.xz. Each log's verdict is compared with the official one that is recorded there. N logs of each
round, evenly chosen (all, unless given), are also read by the official checker, and both are timed on these: one log
after the other, in turn, in this one process.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from suite import mlperf
from suite.mlperf.logs import review_log
from tests.mlperf import official


def main(argv: list[str]) -> int:
    """Print a row for each round; exit code 1 if a verdict is not the official one."""
    given = _arguments(argv)
    folder = Path(given.folder)
    rounds = {f"v{name.removeprefix('mlperf-')}": name for name in mlperf.rulesets()}
    here = [name for name in rounds if given.folder and (folder / name).is_dir()]
    if not here or not (folder / official.VERDICTS).exists():
        print(f"mlperf: skipped, no logs: give the folder with v0.7, v4.0, ... and {official.VERDICTS}, or MLPERF_LOGS")
        return 0
    rows = [_round(folder, name, rounds[name], given.logs) for name in here]
    if given.json:
        print(json.dumps(rows))
    else:
        print("one process; both timed on the same logs, in turn")
        print("round    logs  verdicts equal  timed  ours logs/s  official logs/s  ratio")
        line = "{round:6}{logs:>7}{equal:>16}{timed:>7}{ours:>13.0f}{official:>17.1f}{ratio:>7.1f}"
        for row in rows:
            print(line.format(**row))
    return 0 if all(row["equal"] == row["logs"] for row in rows) else 1


def _ours(log: Path, ruleset: str) -> bool:
    return review_log(log, log.name, ruleset, strict_too=False).verdict == "pass"


def _official(log: Path, ruleset: str) -> bool:
    return official.verdict(log, ruleset) == "PASS"


def _round(folder: Path, name: str, ruleset: str, sample: int | None) -> dict[str, Any]:
    """The row of round `name`; of the timed logs, the official checker must also say now what is recorded."""
    recorded = official.recorded(folder, name)
    paths = sorted(recorded)
    for read in (_ours, _official):  # what the first log of a process costs is neither's
        read(folder / name / paths[0], ruleset)
    timed = set(paths if sample is None else paths[:: -(-len(paths) // sample)])
    equal, seconds = 0, {_ours: 0.0, _official: 0.0}
    for at, path in enumerate(paths):
        said = []
        for read in (_ours,) if path not in timed else (_ours, _official) if at % 2 else (_official, _ours):
            start = time.perf_counter()
            said.append(read(folder / name / path, ruleset))
            if path in timed:
                seconds[read] += time.perf_counter() - start
        equal += set(said) == {recorded[path]}
    return {
        "round": name,
        "logs": len(paths),
        "equal": equal,
        "timed": len(timed),
        "ours": len(timed) / seconds[_ours],
        "official": len(timed) / seconds[_official],
        "ratio": seconds[_official] / seconds[_ours],
    }


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.mlperf", description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=os.environ.get("MLPERF_LOGS", ""), metavar="FOLDER")
    parser.add_argument("--logs", type=int, help="of each round, for the official checker (default: all)")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
