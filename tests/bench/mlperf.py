"""The review of MLPerf logs against MLCommons' own checker: do the verdicts agree, and how much faster is it?

    python -m tests.bench.mlperf [FOLDER]

FOLDER (else the environment variable MLPERF_LOGS) holds submissions in one folder for each round: v0.7, v4.0, ...
Both read the same files in this one run: the official checker in this process, ours with all cores.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path

from suite import mlperf
from tests.mlperf import official

FACTOR = 20


def main(argv: list[str]) -> int:
    """Print the table of verdicts and the ratio of rates; exit code 1 if a verdict differs or the ratio is too low."""
    given = argv[0] if argv else os.environ.get("MLPERF_LOGS", "")
    folder = Path(given)
    rulesets = {f"v{name.removeprefix('mlperf-')}": name for name in mlperf.rulesets()}
    rounds = [name for name in rulesets if given and (folder / name).is_dir() and name != "v0.5"]
    if not rounds:
        print("mlperf: skipped, no logs: give the folder that holds v0.7, v4.0, ... or set MLPERF_LOGS")
        return 0
    ours_s = official_s = 0.0
    table: Counter[tuple[str, str, str]] = Counter()
    for name in rounds:
        start = time.perf_counter()
        review = mlperf.review(folder / name, rulesets[name])
        ours_s += time.perf_counter() - start
        start = time.perf_counter()
        verdicts = [official.verdict(folder / name / log.path, rulesets[name]) for log in review.logs]
        official_s += time.perf_counter() - start
        table.update((name, theirs, ours.verdict) for theirs, ours in zip(verdicts, review.logs, strict=True))
    logs = table.total()
    agreed = sum(count for (_, theirs, ours), count in table.items() if (theirs == "PASS") == (ours == "pass"))
    print(f"{'round':8}{'official':>10}{'ours':>8}{'logs':>7}")
    for (name, theirs, ours), count in sorted(table.items()):
        print(f"{name:8}{theirs:>10}{ours:>8}{count:>7}")
    ratio = official_s / ours_s
    print(f"agreed: {agreed} of {logs}")
    print(f"official, in-process: {logs / official_s:.0f} logs/s; ours, {len(os.sched_getaffinity(0))} cores:", end=" ")
    print(f"{logs / ours_s:.0f} logs/s; ratio {ratio:.1f} (at least {FACTOR})")
    return 0 if agreed == logs and ratio >= FACTOR else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
