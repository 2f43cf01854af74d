"""Kill `suite.data fetch` of a pilot while it makes the shards, then call it again: no shard is made twice."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from suite.config.models import Benchmark
from suite.store import files
from tests.command import ENVIRONMENT


def killed_and_made(pilot: Benchmark, root: Path, source: str, least: int) -> Path:
    """Make the shards, with a kill in between, from a link in `root` to the folder `source` of SUITE_DATA.

    Returns their folder. Asserts that the kill came when there were `least` shards but not all, that these were kept,
    and that all shards have the declared sums, and so the same bytes each time.
    """
    (root / source).symlink_to(Path(ENVIRONMENT["SUITE_DATA"]) / source)
    command = [sys.executable, "-m", "suite.data", "fetch", pilot.name, f"data_dir={root}"]
    made = root / Path(pilot.dataset.members[0].path).parent
    killed = subprocess.Popen(command, env=ENVIRONMENT, start_new_session=True)
    while killed.poll() is None and len(list(made.glob("*.bin"))) < least:
        time.sleep(0.01)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    kept = {path: path.stat().st_mtime_ns for path in made.iterdir() if path.suffix != ".part"}
    assert least <= len(kept) < len(pilot.dataset.members)
    subprocess.run(command, env=ENVIRONMENT, check=True)
    assert files.faults(pilot.dataset, root, "sha256") == []
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    return made
